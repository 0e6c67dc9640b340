"""Log records as assembly keeps them: those that say something about a span."""

from dataclasses import dataclass

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
