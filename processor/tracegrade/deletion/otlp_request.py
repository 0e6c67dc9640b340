"""One OTLP request with some traces taken out, at the same length; and which traces it holds.

On the wire a request is fields within fields: resource, scope, then spans or log records. A span that goes keeps its
place and length, and becomes a field that no OTLP message has, of zeros. Scopes and resources of which nothing is left
go as a whole.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator
from typing import NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tracegrade.model.signal import Signal

_RESOURCES = 1  # in a request
_SCOPES = 2  # in what belongs to a resource
_ITEMS = 2  # in what belongs to a scope
_TRACE_ID = {Signal.TRACES: 1, Signal.LOGS: 9}  # in a span, in a log record

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_ERASED = 15 << 3 | _BYTES  # the highest field number whose tag is one byte, as those it stands in for are

Matches = Callable[[KeyValue], bool]


class _Field(NamedTuple):
    """Where a field of a message stands: its tag, its value (of bytes: without their length), and what follows."""

    number: int
    wire_type: int
    tag: int
    tag_end: int
    value: int
    end: int


def trace_ids(signal: Signal, payload: bytes) -> set[bytes]:
    """The ids of the traces that a request holds something of."""
    if signal not in _TRACE_ID:
        return set()
    id_field = _TRACE_ID[signal]
    return {
        _trace_id(payload, item, id_field)
        for resource in _fields(payload, 0, len(payload), _RESOURCES)
        for scope in _fields(payload, resource.value, resource.end, _SCOPES)
        for item in _fields(payload, scope.value, scope.end, _ITEMS)
    }


def trace_ids_with(signal: Signal, payload: bytes, matches: Matches) -> set[bytes]:
    """The ids of those with an attribute that `matches`, on the resource, on a span, or on a log record."""
    found: set[bytes] = set()
    if signal == Signal.TRACES:
        for resource_spans in ExportTraceServiceRequest.FromString(payload).resource_spans:
            on_resource = any(map(matches, resource_spans.resource.attributes))
            for scope_spans in resource_spans.scope_spans:
                found.update(s.trace_id for s in scope_spans.spans if on_resource or any(map(matches, s.attributes)))
    elif signal == Signal.LOGS:
        for resource_logs in ExportLogsServiceRequest.FromString(payload).resource_logs:
            on_resource = any(map(matches, resource_logs.resource.attributes))
            for scope_logs in resource_logs.scope_logs:
                found.update(
                    log.trace_id for log in scope_logs.log_records if on_resource or any(map(matches, log.attributes))
                )
    found.discard(b"")
    return found


def without(signal: Signal, payload: bytes, traces: Container[bytes]) -> tuple[bytes, Counter[bytes]]:
    """`payload` without the spans or log records of `traces`, and how many that were of each."""
    erased: Counter[bytes] = Counter()
    if signal not in _TRACE_ID:
        return payload, erased
    id_field = _TRACE_ID[signal]
    changed = bytearray(payload)
    for resource in _fields(payload, 0, len(payload), _RESOURCES):
        gone_scopes = left_scopes = 0
        for scope in _fields(payload, resource.value, resource.end, _SCOPES):
            gone = left = 0
            for item in _fields(payload, scope.value, scope.end, _ITEMS):
                if (trace_id := _trace_id(payload, item, id_field)) in traces:
                    _erase(changed, item)
                    erased[trace_id] += 1
                    gone += 1
                else:
                    left += 1
            if gone and not left:
                _erase(changed, scope)
                gone_scopes += 1
            else:
                left_scopes += 1
        if gone_scopes and not left_scopes:
            _erase(changed, resource)
    return bytes(changed), erased


def _erase(data: bytearray, field: _Field) -> None:
    rest = field.tag_end - field.tag - 1  # a tag may be written longer than it need be
    data[field.tag] = _ERASED | (0x80 if rest else 0)
    data[field.tag + 1 : field.tag_end] = (b"\x80" * rest)[1:] + bytes(min(rest, 1))
    data[field.value : field.end] = bytes(field.end - field.value)


def _trace_id(data: bytes, item: _Field, id_field: int) -> bytes:
    found = b""
    for field in _fields(data, item.value, item.end, id_field):
        found = data[field.value : field.end]  # of several the last one counts
    return found


def _fields(data: bytes, at: int, end: int, number: int) -> Iterator[_Field]:
    """The fields of bytes with that number, of the message at ``data[at:end]``, which is known to be well formed."""
    while at < end:
        field = _field(data, at)
        if field.number == number and field.wire_type == _BYTES:
            yield field
        at = field.end


def _field(data: bytes, at: int) -> _Field:
    tag, tag_end = _varint(data, at)
    number, wire_type = tag >> 3, tag & 7
    value = tag_end
    if wire_type == _VARINT:
        _, end = _varint(data, value)
    elif wire_type == _FIXED64:
        end = value + 8
    elif wire_type == _FIXED32:
        end = value + 4
    elif wire_type == _BYTES:
        length, value = _varint(data, value)
        end = value + length
    elif wire_type == _GROUP:
        inner = _field(data, value)
        while inner.wire_type != _GROUP_END:
            inner = _field(data, inner.end)
        end = inner.end
    elif wire_type == _GROUP_END:
        end = value
    else:
        raise ValueError(f"wire type {wire_type} at byte {at}; expected 0 to 5: the request was parsed before")
    return _Field(number, wire_type, at, tag_end, value, end)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
