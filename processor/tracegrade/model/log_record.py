"""Log records as assembly keeps them: those that say something about a span."""

from dataclasses import dataclass
from typing import Any

from tracegrade.model.span import SpanEvent


@dataclass(slots=True)
class LogRecord:
    """An event of the span that ``span_id`` names, sent apart from it.

    Ids are the wire's bytes (16 and 8 long). The event's attributes are the record's own and, where its body is a map,
    the members of that (``body``, where it is one as JSON text); its time is the record's, else the time at which it
    was observed.
    """

    trace_id: bytes
    span_id: bytes
    scope: str
    event: SpanEvent


def lacks_id(record: Any) -> str:
    """The id without which a record of OTLP names no span: "trace id", "span id", or "" where it has both.

    An id of zeros is none.
    """
    return "trace id" if not any(record.trace_id) else "span id" if not any(record.span_id) else ""
