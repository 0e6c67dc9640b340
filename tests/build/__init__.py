"""Builders that all tests share: tables, what is judged, and stores of results.

One way to make each thing. A test imports what it needs from here: ``from build import call, each, trace``; where a
variable has the name of a builder, ``import build`` and ``build.trace(...)``. Spans and requests as they are sent are
in ``build.otlp``, a running ``serve`` and a receiver behind it in ``build.served``.
"""

from build.calls import call, calls, score
from build.rules import rule
from build.stores import give_up_waiting, store_with
from build.tables import each, rest_long
from build.traces import TRACE_ID, log_record, read_case, span, span_id, trace

__all__ = [
    "TRACE_ID",
    "call",
    "calls",
    "each",
    "give_up_waiting",
    "log_record",
    "read_case",
    "rest_long",
    "rule",
    "score",
    "span",
    "span_id",
    "store_with",
    "trace",
]
