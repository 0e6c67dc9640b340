"""Builders that all tests share: tables, and what is judged.

One way to make each thing. A test imports what it needs from here: ``from build import each``.
"""

from build.tables import each

__all__ = ["each"]
