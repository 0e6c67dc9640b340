"""Decides which of two contents of one span id is kept, and when contents are the same (promise 2)."""

from dataclasses import replace
from hashlib import blake2b

import orjson

from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span, SpanEvent
from tracegrade.semconv import EVENT_SEQUENCE

# Digests of replaced contents are stored. So unread keys stay in the digested content as if they were an attribute, as
# they were in earlier versions.
_UNREAD_KEYS = "tracegrade.unread_keys"


def canonical_content(span: Span) -> bytes:
    """The kept fields of a span as canonical JSON."""
    unread_keys = span.unread_keys
    attributes = span.attributes if unread_keys is None else {**span.attributes, _UNREAD_KEYS: unread_keys}
    return orjson.dumps(
        [
            span.parent_span_id.hex(),
            span.name,
            span.kind,
            span.start_ns,
            span.flags,
            span.status_code,
            span.status_message,
            attributes,
            [_event(event) for event in span.events],
            span.dropped_attributes_count,
            span.scope,
            span.resource.attributes,
        ],
        option=orjson.OPT_SORT_KEYS,
    )


def _event(event: SpanEvent) -> list[object]:
    return [event.name, event.time_ns, event.attributes]


def digest(span: Span) -> bytes:
    """16 bytes that identify (span id, content)."""
    text = b"%s%d%s" % (span.span_id, span.end_ns, canonical_content(span))
    return blake2b(text, digest_size=16).digest()


def is_same_otherwise_kept(one: Span, other: Span) -> bool:
    """Whether two contents can be one span that was decoded with different attribute filters."""
    return (
        replace(
            one,
            attributes=other.attributes,
            events=other.events,
            unread_keys=other.unread_keys,
            is_whole=other.is_whole,
        )
        == other
        and (one.unread_keys is None or other.unread_keys is None or one.unread_keys == other.unread_keys)
        and all(one.attributes[key] == other.attributes[key] for key in one.attributes.keys() & other.attributes.keys())
        and _events_of(one, other) == _events_of(other, one)
    )


def _events_of(one: Span, other: Span) -> list[SpanEvent]:
    """The events of `one` with names that were kept for both: an event is kept whole, or not at all."""
    names = {event.name for event in other.events}
    return [event for event in one.events if event.name in names]


def is_preferred(new: Span, old: Span) -> bool:
    """Whether `new` replaces `old`: the later end wins, then the greater canonical content."""
    if new.end_ns != old.end_ns:
        return new.end_ns > old.end_ns
    return canonical_content(new) > canonical_content(old)


def log_record_digest(record: LogRecord) -> bytes:
    """16 bytes that identify a log record, so that one that comes twice counts once."""
    text = orjson.dumps([record.span_id.hex(), record.scope, _event(record.event)], option=orjson.OPT_SORT_KEYS)
    return blake2b(text, digest_size=16).digest()


def in_order_written(log_records: dict[bytes, LogRecord]) -> list[LogRecord]:
    """Log records by time, then by the number that some senders count their events with, then by digest.

    Args:
        log_records: by digest.
    """
    return [log_records[key] for key in sorted(log_records, key=lambda key: (*_written(log_records[key]), key))]


def _written(record: LogRecord) -> tuple[int, int]:
    number = record.event.attributes.get(EVENT_SEQUENCE)
    return record.event.time_ns, number if type(number) is int else 0
