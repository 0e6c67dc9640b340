"""Short spans and log records for tests of assembly."""

from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span, SpanEvent

TRACE = bytes(15) + b"\x01"


def span(number: int, parent: int | None = None, *, trace: bytes = TRACE, end: int = 10, **changes: object) -> Span:
    """A span with id `number`; ``parent=None`` is a root."""
    made = Span(
        trace_id=trace,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"" if parent is None else parent.to_bytes(8, "big"),
        name=f"span {number}",
        kind=1,
        start_ns=number,
        end_ns=end,
        flags=0x101,
        status_code=0,
        status_message="",
        attributes={},
        events=[],
        dropped_attributes_count=0,
        scope="test",
        resource=Resource({"service.name": "shop"}),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def log_record(span_number: int, text: str, *, trace: bytes = TRACE, time: int = 0) -> LogRecord:
    """A log record of the span with this number."""
    return LogRecord(trace, span_number.to_bytes(8, "big"), "test", SpanEvent("said", time, {"content": text}))
