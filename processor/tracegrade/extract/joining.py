"""Joins log records to their spans as events, so that content sent in log records is read like content on spans."""

from collections.abc import Container, Sequence, Set
from dataclasses import replace

from tracegrade.extract.decode.values import decode
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span, SpanEvent
from tracegrade.semconv import CLAUDE_TOOL_USE_ID, LOG_BODY


def join(spans: Sequence[Span], log_records: Sequence[LogRecord], known: Container[str]) -> list[Span]:
    """The spans, each with its log records as further events, in the order given; records without a span are left out.

    A record that says which use of a tool it is about is an event of that one's span, not of the span around it all
    that it names (Claude Code). One that an instrumentation wrote while its span was not the current one names the span
    around that; it is an event of the latest one that was open then (OpenLLMetry). Spans are not changed: one that gets
    events is a copy. It is whole, too, where one of them was kept to be read by shape.

    Args:
        spans: in order of start.
        log_records: in the order in which they were written.
        known: the names of events that dialects read.
    """
    uses: dict[str, bytes] = {}
    for span in reversed(spans):  # the outermost of a use stays
        if isinstance(use := span.attributes.get(CLAUDE_TOOL_USE_ID), str):
            uses[use] = span.span_id
    events: dict[bytes, list[SpanEvent]] = {}
    inner = _inner_spans(spans, {(record.span_id, record.scope) for record in log_records})
    for record in log_records:
        use = record.event.attributes.get(CLAUDE_TOOL_USE_ID)
        span_id = uses.get(use, record.span_id) if isinstance(use, str) else record.span_id
        if record.event.name in known and (within := inner.get((record.span_id, record.scope))):
            at_ns = record.event.time_ns
            span_id = next((span.span_id for span in within if span.start_ns <= at_ns <= span.end_ns), span_id)
        events.setdefault(span_id, []).append(_with_its_body(record.event))
    return [_with_events(span, events[span.span_id], known) if span.span_id in events else span for span in spans]


def _inner_spans(spans: Sequence[Span], named: Set[tuple[bytes, str]]) -> dict[tuple[bytes, str], list[Span]]:
    """The spans directly below those named, latest first, that have a record's scope where the one named has not."""
    scopes = {span.span_id: span.scope for span in spans}
    inner: dict[tuple[bytes, str], list[Span]] = {}
    for span in reversed(spans):
        place = span.parent_span_id, span.scope
        if place in named and scopes.get(span.parent_span_id) != span.scope:
            inner.setdefault(place, []).append(span)
    return inner


def _with_events(span: Span, events: list[SpanEvent], known: Container[str]) -> Span:
    is_whole = span.is_whole or any(event.name not in known and event.name != span.scope for event in events)
    return replace(span, events=span.events + events, is_whole=is_whole)


def _with_its_body(event: SpanEvent) -> SpanEvent:
    """`event` with the members of a body that was logged as JSON text."""
    if LOG_BODY not in event.attributes:
        return event
    body = decode(event.attributes[LOG_BODY]).value
    return replace(event, attributes=event.attributes | body) if isinstance(body, dict) else event
