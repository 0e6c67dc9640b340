"""Builders that all tests share: tables, what is judged, and stores of results.

One way to make each thing. A test imports what it needs from here: ``from build import each``. Spans and requests as
they are sent are in ``build.otlp``, a running ``serve`` and a receiver behind it in ``build.served``.
"""

from build.stores import store_with
from build.tables import each, rest_long

__all__ = ["each", "rest_long", "store_with"]
