"""The kept spans and log records of one trace as one compressed blob, and back.

The blob is what lets a late span find its trace again, `why` match it again and the page draw it. All of it
comes back equal. Resources, scopes and the trace id are written once: fewer bytes to compress.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.store.packing import pack, unpack

_VERSION_BYTE = b"\x03"
_WITHOUT_WANTED = b"\x02"


class KeptSpans(NamedTuple):
    """What is kept of a trace."""

    spans: list[Span]
    replaced: list[bytes]  # digests of replaced contents
    log_records: list[LogRecord]
    wanted: str = ""  # hash of what was kept of each span; "" when it is not known, or not the same for all


class KeptSpansError(TraceGradeError):
    """A blob of kept spans cannot be read: damaged, or written by another version."""


def encode_spans(
    spans: list[Span], replaced: list[bytes], log_records: Sequence[LogRecord] = (), wanted: str = ""
) -> bytes:
    """Pack `spans`, the digests of replaced contents and the log records; the order of all is kept.

    Attribute values are decoded AnyValues: their integers fit 64 bits and their texts are UTF-8.
    """
    resource_numbers: dict[int, int] = {}
    resources: list[dict[str, JsonValue]] = []
    trace_ids: dict[bytes, int] = {}
    scopes: dict[str, int] = {}
    rows = []
    for span in spans:
        # By identity: comparing attributes would cost more than writing a resource twice, which compresses well.
        resource = resource_numbers.get(id(span.resource))
        if resource is None:
            resource = resource_numbers[id(span.resource)] = len(resources)
            resources.append(span.resource.attributes)
        rows.append(
            (
                trace_ids.setdefault(span.trace_id, len(trace_ids)),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.name,
                span.kind,
                span.start_ns,
                span.end_ns,
                span.flags,
                span.status_code,
                span.status_message,
                span.attributes,
                [_event(event) for event in span.events] if span.events else (),
                span.dropped_attributes_count,
                scopes.setdefault(span.scope, len(scopes)),
                resource,
            )
        )
    log_rows = [
        (
            trace_ids.setdefault(record.trace_id, len(trace_ids)),
            record.span_id.hex(),
            scopes.setdefault(record.scope, len(scopes)),
            _event(record.event),
        )
        for record in log_records
    ]
    header = ([trace_id.hex() for trace_id in trace_ids], list(scopes), resources, [d.hex() for d in replaced])
    return _VERSION_BYTE + pack(orjson.dumps((*header, rows, log_rows, wanted)))


def _event(event: SpanEvent) -> tuple[str, int, dict[str, JsonValue]]:
    return event.name, event.time_ns, event.attributes


def decode_spans(blob: bytes) -> KeptSpans:
    """What `encode_spans` packed.

    Raises:
        KeptSpansError: `blob` is damaged or of another version.
    """
    if blob[:1] not in (_VERSION_BYTE, _WITHOUT_WANTED):
        raise KeptSpansError(f"kept spans of version {blob[:1].hex() or None} found, expected {_VERSION_BYTE.hex()}")
    try:
        hex_trace_ids, scopes, resources, replaced, rows, log_rows, *wanted = orjson.loads(unpack(blob[1:]))
        trace_ids = [bytes.fromhex(trace_id) for trace_id in hex_trace_ids]
        return KeptSpans(
            _spans(trace_ids, scopes, resources, rows),
            [bytes.fromhex(digest) for digest in replaced],
            [
                LogRecord(trace_ids[trace], bytes.fromhex(span_id), scopes[scope], SpanEvent(*event))
                for trace, span_id, scope, event in log_rows
            ],
            *wanted,
        )
    except (ValueError, TypeError, IndexError) as error:
        raise KeptSpansError(f"kept spans cannot be read: {error}") from None


def _spans(
    trace_ids: list[bytes], scopes: list[str], resources: list[dict[str, JsonValue]], rows: list[Any]
) -> list[Span]:
    shared = [Resource(attributes) for attributes in resources]
    from_hex = bytes.fromhex
    return [
        # By place: named arguments take a third longer.
        Span(
            trace_ids[trace],
            from_hex(span_id),
            from_hex(parent_span_id),
            name,
            kind,
            start_ns,
            end_ns,
            flags,
            status_code,
            status_message,
            attributes,
            [SpanEvent(*event) for event in events] if events else [],
            dropped,
            scopes[scope],
            shared[resource],
        )
        for (
            trace,
            span_id,
            parent_span_id,
            name,
            kind,
            start_ns,
            end_ns,
            flags,
            status_code,
            status_message,
            attributes,
            events,
            dropped,
            scope,
            resource,
        ) in rows
    ]
