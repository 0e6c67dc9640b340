"""The kept spans of one trace as one compressed blob, and back.

The blob is what lets a late span find its trace again, `why` match it again and the page draw it. Every span comes
back equal. Resources, scopes and the trace id are written once: fewer bytes to compress.
"""

from typing import Any

import orjson

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.store.packing import pack, unpack

_VERSION_BYTE = b"\x01"


class KeptSpansError(TraceGradeError):
    """A blob of kept spans cannot be read: damaged, or written by another version."""


def encode_spans(spans: list[Span], replaced: list[bytes]) -> bytes:
    """Pack `spans` and the digests of replaced contents; the order of both is kept.

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
                [(event.name, event.time_ns, event.attributes) for event in span.events] if span.events else (),
                span.dropped_attributes_count,
                scopes.setdefault(span.scope, len(scopes)),
                resource,
            )
        )
    header = ([trace_id.hex() for trace_id in trace_ids], list(scopes), resources, [d.hex() for d in replaced])
    return _VERSION_BYTE + pack(orjson.dumps((*header, rows)))


def decode_spans(blob: bytes) -> tuple[list[Span], list[bytes]]:
    """The spans and the digests of replaced contents that `encode_spans` packed.

    Raises:
        KeptSpansError: `blob` is damaged or of another version.
    """
    if blob[:1] != _VERSION_BYTE:
        raise KeptSpansError(f"kept spans of version {blob[:1].hex() or None} found, expected {_VERSION_BYTE.hex()}")
    try:
        trace_ids, scopes, resources, replaced, rows = orjson.loads(unpack(blob[1:]))
        return _spans(trace_ids, scopes, resources, rows), [bytes.fromhex(digest) for digest in replaced]
    except (ValueError, TypeError, IndexError) as error:
        raise KeptSpansError(f"kept spans cannot be read: {error}") from None


def _spans(
    trace_ids: list[str], scopes: list[str], resources: list[dict[str, JsonValue]], rows: list[Any]
) -> list[Span]:
    traces = [bytes.fromhex(trace_id) for trace_id in trace_ids]
    shared = [Resource(attributes) for attributes in resources]
    return [
        Span(
            trace_id=traces[trace],
            span_id=bytes.fromhex(span_id),
            parent_span_id=bytes.fromhex(parent_span_id),
            name=name,
            kind=kind,
            start_ns=start_ns,
            end_ns=end_ns,
            flags=flags,
            status_code=status_code,
            status_message=status_message,
            attributes=attributes,
            events=[SpanEvent(*event) for event in events],
            dropped_attributes_count=dropped,
            scope=scopes[scope],
            resource=shared[resource],
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
