from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tracegrade.deletion.otlp_request import trace_ids, trace_ids_with, without
from tracegrade.model.signal import Signal

# Resources, of scopes, of (trace number, text) for each span.
Shape = list[list[list[tuple[int, str]]]]
SHAPES = st.lists(
    st.lists(st.lists(st.tuples(st.integers(1, 4), st.text(max_size=200)), max_size=4), max_size=3), max_size=3
)
TRACES = st.frozensets(st.integers(1, 4))


def id_of(trace: int) -> bytes:
    return trace.to_bytes(16, "big")


def spans_request(shape: Shape) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    for scopes in shape:
        resource_spans = request.resource_spans.add(schema_url="https://example.org/resource")
        resource_spans.resource.attributes.append(text("service.name", "shop"))
        for spans in scopes:
            scope_spans = resource_spans.scope_spans.add(schema_url="https://example.org/scope")
            scope_spans.scope.name = "sdk"
            scope_spans.spans.extend(
                Span(
                    trace_id=id_of(trace), name=name, start_time_unix_nano=7, flags=0x101, attributes=[text("a", name)]
                )
                for trace, name in spans
            )
    return request


def logs_request(shape: Shape) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    for scopes in shape:
        resource_logs = request.resource_logs.add()
        for records in scopes:
            resource_logs.scope_logs.add().log_records.extend(
                LogRecord(trace_id=id_of(trace), body=AnyValue(string_value=body)) for trace, body in records
            )
    return request


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def left_of(shape: Shape, gone: frozenset[int]) -> Shape:
    """What is expected: no span of `gone`, no scope and no resource that lost all it had."""

    def left(scopes: Sequence[Sequence[tuple[int, str]]]) -> list[list[tuple[int, str]]] | None:
        kept = []
        for spans in scopes:
            rest = [span for span in spans if span[0] not in gone]
            if rest or not spans:
                kept.append(rest)
        return kept if kept or not scopes else None

    return [kept for scopes in shape if (kept := left(scopes)) is not None]


@given(SHAPES, TRACES)
def test_what_is_left_is_the_request_without_them_at_the_same_length(shape: Shape, gone: frozenset[int]) -> None:
    payload = spans_request(shape).SerializeToString()
    changed, count = without(Signal.TRACES, payload, set(map(id_of, gone)))
    assert len(changed) == len(payload)
    assert count.total() == sum(trace in gone for scopes in shape for spans in scopes for trace, _ in spans)
    assert set(count) <= set(map(id_of, gone))
    read = ExportTraceServiceRequest.FromString(changed)
    read.DiscardUnknownFields()
    assert read == spans_request(left_of(shape, gone))
    assert trace_ids(Signal.TRACES, changed) == trace_ids(Signal.TRACES, payload) - set(map(id_of, gone))


@given(SHAPES, TRACES)
def test_log_records_go_as_spans_do(shape: Shape, gone: frozenset[int]) -> None:
    payload = logs_request(shape).SerializeToString()
    changed, _ = without(Signal.LOGS, payload, set(map(id_of, gone)))
    assert len(changed) == len(payload)
    read = ExportLogsServiceRequest.FromString(changed)
    read.DiscardUnknownFields()
    assert read == logs_request(left_of(shape, gone))


def test_no_byte_of_what_goes_is_left_and_no_byte_of_the_rest_changes() -> None:
    payload = spans_request([[[(1, "gone"), (2, "stays")]]]).SerializeToString()
    changed, _ = without(Signal.TRACES, payload, {id_of(1)})
    assert b"gone" not in changed
    assert id_of(1) not in changed
    start = payload.index(id_of(2)) - 2
    assert changed[start:] == payload[start:]


def test_tags_longer_than_they_need_be_and_unknown_fields_are_passed_over() -> None:
    span = Span(trace_id=id_of(1), name="gone").SerializeToString()
    unknown = b"\xf3\x7d\x08\x01\xf4\x7d" + b"\x98\x7d\x05" + b"\x99\x7d" + bytes(8) + b"\x9d\x7d" + bytes(4)
    # Field 2 of bytes, written in one, two and three bytes.
    items = b"".join(tag + bytes([len(span)]) + span for tag in (b"\x12", b"\x92\x00", b"\x92\x80\x00"))
    other = Span(trace_id=id_of(2), name="stays").SerializeToString()
    scope = unknown + items + b"\x12" + bytes([len(other)]) + other
    resource = b"\x12" + _length(scope) + scope
    payload = b"\x0a" + _length(resource) + resource
    assert len(ExportTraceServiceRequest.FromString(payload).resource_spans[0].scope_spans[0].spans) == 4
    changed, count = without(Signal.TRACES, payload, {id_of(1)})
    assert count == {id_of(1): 3}
    (left,) = ExportTraceServiceRequest.FromString(changed).resource_spans[0].scope_spans[0].spans
    assert left.name == "stays"
    assert unknown in changed


def _length(data: bytes) -> bytes:
    return bytes([len(data) & 0x7F | 0x80, len(data) >> 7])


@pytest.mark.parametrize("on", ["span", "resource"])
def test_traces_are_found_by_an_attribute_of_a_span_or_its_resource(on: str) -> None:
    request = spans_request([[[(1, "a"), (2, "b")]], [[(3, "c")]]])
    holder = request.resource_spans[0]
    attributes = holder.resource.attributes if on == "resource" else holder.scope_spans[0].spans[1].attributes
    attributes.append(text("user.id", "ann"))
    found = trace_ids_with(Signal.TRACES, request.SerializeToString(), lambda a: a.value.string_value == "ann")
    assert found == ({id_of(2)} if on == "span" else {id_of(1), id_of(2)})


def test_metrics_hold_no_traces() -> None:
    assert without(Signal.METRICS, b"anything", {id_of(1)}) == (b"anything", {})
    assert trace_ids(Signal.METRICS, b"anything") == set()
