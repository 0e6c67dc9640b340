"""The kept spans and log records of one trace as one compressed blob, and back.

From the blob, a late span finds its trace again, `why` matches it again and the page draws it. Everything comes back
equal. Resources, scopes and the trace id are written once, so that fewer bytes are compressed.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from tracegrade.codec.packing import Unreadable, pack, unpack
from tracegrade.model.json_value import JsonValue
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.model.trace import SPAN_ORDER, Trace
from tracegrade.model.trace_result import VALUES_GONE, TraceResult

# Protobuf and the dialects, which spans kept as they came need, are imported where such are read: others are shown
# without, in half of the time.
if TYPE_CHECKING:
    from tracegrade.codec.raw_spans import RawSpan

_VERSION_BYTE = b"\x03"
# Stored among the attributes of a span in the blob, for compatibility; no sender uses these names.
_UNREAD_KEYS = "tracegrade.unread_keys"
_IS_WHOLE = "tracegrade.is_whole"
_WITHOUT_FILTER_HASH = b"\x02"
_AS_THEY_CAME = b"\x04"
_HEAD_LENGTH = Struct(">I")


class KeptSpans(NamedTuple):
    """The parts of a trace that are kept."""

    spans: list[Span]
    replaced: list[bytes]  # digests of replaced contents
    log_records: list[LogRecord]
    filter_hash: str = ""  # hash of the attribute filter; "" when unknown or not the same for all spans


class ValuesGone(Unreadable):
    """The values of a trace are older than they may be; names, ids, times and scores are there."""

    def __init__(self) -> None:
        super().__init__(
            "its prompts, arguments and outputs were deleted, since they are older than store.values_retention; its "
            "scores stay"
        )


def encode_spans(
    spans: list[Span], replaced: list[bytes], log_records: Sequence[LogRecord] = (), filter_hash: str = ""
) -> bytes:
    """Pack `spans`, the digests of replaced contents and the log records; their order is kept.

    Attribute values are decoded AnyValues: their integers fit 64 bits and their texts are UTF-8. Spans that are
    all held as they came, and are read alike, are kept so: with all attributes, of which decoding chooses.
    """
    from tracegrade.codec.raw_spans import all_raw

    raw = all_raw(spans)
    if raw is not None and len({span.origin.reader.filter_hash for span in raw}) == 1:
        return _as_they_came(raw, replaced, log_records)
    resource_numbers: dict[int, int] = {}
    resources: list[dict[str, JsonValue]] = []
    trace_ids: dict[bytes, int] = {}
    scopes: dict[str, int] = {}
    rows = []
    known: Resource | None = None  # the resource and the scope of most spans are those of the span before
    scope: str | None = None
    trace_id = b""
    for span in spans:
        # By identity: comparing attributes would cost more than writing a resource twice, which compresses well.
        if span.resource is not known:
            known = span.resource
            resource = resource_numbers.setdefault(id(known), len(resources))
            if resource == len(resources):
                resources.append(known.attributes)
        if span.scope is not scope:
            scope = span.scope
            scope_number = scopes.setdefault(scope, len(scopes))
        if span.trace_id != trace_id:
            trace_id = span.trace_id
            trace_number = trace_ids.setdefault(trace_id, len(trace_ids))
        rows.append(
            (
                trace_number,
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.name,
                span.kind,
                span.start_ns,
                span.end_ns,
                span.flags,
                span.status_code,
                span.status_message,
                _marked(span) if span.is_whole or span.unread_keys is not None else span.attributes,
                [_event(event) for event in span.events] if span.events else (),
                span.dropped_attributes_count,
                scope_number,
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
    return _VERSION_BYTE + pack(orjson.dumps((*header, rows, log_rows, filter_hash)))


def _as_they_came(spans: "list[RawSpan]", replaced: list[bytes], log_records: Sequence[LogRecord]) -> bytes:
    from tracegrade.codec.raw_spans import further_attributes, request_of

    reader = spans[0].origin.reader
    log_rows = [
        (record.trace_id.hex(), record.span_id.hex(), record.scope, _event(record.event)) for record in log_records
    ]
    head = orjson.dumps((reader.filter_hash, further_attributes(reader.filter), [d.hex() for d in replaced], log_rows))
    return _AS_THEY_CAME + pack(b"".join((_HEAD_LENGTH.pack(len(head)), head, request_of(spans))))


def _marked(span: Span) -> dict[str, JsonValue]:
    marked = dict(span.attributes)
    if span.unread_keys is not None:
        marked[_UNREAD_KEYS] = [*span.unread_keys]
    if span.is_whole:
        marked[_IS_WHOLE] = True
    return marked


def _event(event: SpanEvent) -> tuple[str, int, dict[str, JsonValue]]:
    return event.name, event.time_ns, event.attributes


def decode_spans(blob: bytes, *, as_they_came: bool = False) -> KeptSpans:
    """The parts that `encode_spans` packed.

    Args:
        blob: what it returned.
        as_they_came: spans that are kept so are `RawSpan`s again, of which little is read.

    Raises:
        ValuesGone: they were deleted, since they are too old.
        Unreadable: `blob` is damaged or of another version.
    """
    if blob == VALUES_GONE:
        raise ValuesGone
    if blob[:1] == _AS_THEY_CAME:
        from tracegrade.codec.raw_spans import plain

        kept = _decode_as_they_came(blob)
        return kept if as_they_came else kept._replace(spans=sorted(map(plain, kept.spans), key=SPAN_ORDER))
    if blob[:1] not in (_VERSION_BYTE, _WITHOUT_FILTER_HASH):
        raise Unreadable(f"kept spans of version {blob[:1].hex() or None} found, expected {_VERSION_BYTE.hex()}")
    try:
        hex_trace_ids, scopes, resources, replaced, rows, log_rows, *filter_hash = orjson.loads(unpack(blob[1:]))
        trace_ids = [bytes.fromhex(trace_id) for trace_id in hex_trace_ids]
        return KeptSpans(
            _spans(trace_ids, scopes, resources, rows),
            [bytes.fromhex(digest) for digest in replaced],
            [
                LogRecord(trace_ids[trace], bytes.fromhex(span_id), scopes[scope], SpanEvent(*event))
                for trace, span_id, scope, event in log_rows
            ],
            *filter_hash,
        )
    except (ValueError, TypeError, IndexError) as error:
        raise Unreadable(f"kept spans cannot be read: {error}") from None


def _decode_as_they_came(blob: bytes) -> KeptSpans:
    from google.protobuf.message import DecodeError

    from tracegrade.codec.raw_spans import raw_reader_of

    try:
        _, further, replaced, log_rows, request = _parts_as_they_came(blob)
        reader = raw_reader_of(further)
        return KeptSpans(
            reader.spans(request),
            [bytes.fromhex(digest) for digest in replaced],
            [
                LogRecord(bytes.fromhex(trace_id), bytes.fromhex(span_id), scope, SpanEvent(*event))
                for trace_id, span_id, scope, event in log_rows
            ],
            reader.reader.filter_hash,  # that of now: all attributes are there
        )
    except (ValueError, TypeError, IndexError, StructError, DecodeError) as error:
        raise Unreadable(f"kept spans cannot be read: {error}") from None


def _parts_as_they_came(blob: bytes) -> list[Any]:
    data = unpack(blob[1:])
    end = _HEAD_LENGTH.size + _HEAD_LENGTH.unpack_from(data)[0]
    return [*orjson.loads(data[_HEAD_LENGTH.size : end]), data[end:]]


def filter_hash_in(blob: bytes) -> str:
    """The filter hash alone of what `encode_spans` packed: a tenth of the time, as nothing else is decoded.

    Raises:
        Unreadable: `blob` is damaged or of another version.
    """
    try:
        if blob[:1] == _AS_THEY_CAME:
            from tracegrade.codec.raw_spans import raw_reader_of

            return raw_reader_of(_parts_as_they_came(blob)[1]).reader.filter_hash
        if blob[:1] != _VERSION_BYTE:
            return decode_spans(blob).filter_hash
        # The last item of the list.
        return str(orjson.loads(unpack(blob[1:]).rpartition(b",")[2].removesuffix(b"]")))
    except (ValueError, TypeError, IndexError, StructError) as error:
        raise Unreadable(f"kept spans cannot be read: {error}") from None


def trace_of(result: TraceResult) -> Trace:
    """The trace as it was judged; not for a session, which has no spans of its own.

    Raises:
        Unreadable: its spans are damaged, or were stored by another version.
    """
    summary = result.trace
    kept = decode_spans(result.spans)
    return Trace(
        trace_id=bytes.fromhex(summary.trace_id),
        tenant=summary.tenant,
        spans=kept.spans,
        close_reason=summary.close_reason,
        missing=summary.missing,
        revision=summary.revision,
        first_received_ns=summary.first_received_ns,
        last_received_ns=summary.last_received_ns,
        first_position=summary.first_position,
        last_position=summary.last_position,
        cut_by=summary.cut_by,
        replaced=kept.replaced,
        rule_set=summary.rule_set_hash,
        filter_hash=kept.filter_hash,
        closed_ns=summary.closed_ns,
        log_records=kept.log_records,
    )


def _spans(
    trace_ids: list[bytes], scopes: list[str], resources: list[dict[str, JsonValue]], rows: list[Any]
) -> list[Span]:
    shared = [Resource(attributes) for attributes in resources]
    from_hex = bytes.fromhex
    return [
        # By position: named arguments take a third longer.
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
            tuple(attributes.pop(_UNREAD_KEYS)) if _UNREAD_KEYS in attributes else None,
            attributes.pop(_IS_WHOLE, False),
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
