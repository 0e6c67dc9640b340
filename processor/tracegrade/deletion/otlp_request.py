"""One OTLP request with some traces taken out, at the same length; and which traces it holds.

On the wire a request is fields within fields: resource, scope, then spans or log records. A span that goes keeps its
place and length, and becomes a field that no OTLP message has, of zeros. Scopes and resources of which nothing is left
go as a whole.
"""

from collections import Counter
from collections.abc import Callable, Container

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tracegrade.model.signal import Signal
from tracegrade.otlp.wire import BYTES, ITEMS, RESOURCES, SCOPES, TRACE_ID, Field, fields, trace_id_of

_ERASED = 15 << 3 | BYTES  # the highest field number whose tag is one byte, as those it stands in for are

Matches = Callable[[KeyValue], bool]


def trace_ids(signal: Signal, payload: bytes) -> set[bytes]:
    """The ids of the traces that a request holds something of."""
    if signal not in TRACE_ID:
        return set()
    id_field = TRACE_ID[signal]
    return {
        trace_id_of(payload, item, id_field)
        for resource in fields(payload, 0, len(payload), RESOURCES)
        for scope in fields(payload, resource.value, resource.end, SCOPES)
        for item in fields(payload, scope.value, scope.end, ITEMS)
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
    if signal not in TRACE_ID:
        return payload, erased
    id_field = TRACE_ID[signal]
    changed = bytearray(payload)
    for resource in fields(payload, 0, len(payload), RESOURCES):
        gone_scopes = left_scopes = 0
        for scope in fields(payload, resource.value, resource.end, SCOPES):
            gone = left = 0
            for item in fields(payload, scope.value, scope.end, ITEMS):
                if (trace_id := trace_id_of(payload, item, id_field)) in traces:
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


def _erase(data: bytearray, field: Field) -> None:
    rest = field.tag_end - field.tag - 1  # a tag may be written longer than it need be
    data[field.tag] = _ERASED | (0x80 if rest else 0)
    data[field.tag + 1 : field.tag_end] = (b"\x80" * rest)[1:] + bytes(min(rest, 1))
    data[field.value : field.end] = bytes(field.end - field.value)
