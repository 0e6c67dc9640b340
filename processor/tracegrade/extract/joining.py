"""Log records as events of their spans: content that a producer sends apart is read as if it stood on the span."""

from collections.abc import Sequence
from dataclasses import replace

from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span, SpanEvent


def join(spans: Sequence[Span], log_records: Sequence[LogRecord]) -> list[Span]:
    """The spans, each with its log records as further events, in the order given; a record without its span is left.

    Spans are not changed: one that gets events is a copy.
    """
    events: dict[bytes, list[SpanEvent]] = {}
    for record in log_records:
        events.setdefault(record.span_id, []).append(record.event)
    return [
        replace(span, events=span.events + events[span.span_id]) if span.span_id in events else span for span in spans
    ]
