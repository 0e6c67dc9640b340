from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from build.refused import not_taken
from tracegrade.journal.record import Encoding
from tracegrade.model.errors import NotTaken
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import to_json
from tracegrade.receive.validate import check

T, S = bytes(range(1, 17)), bytes(range(1, 9))
RequestOf = Callable[..., ExportTraceServiceRequest]


def span_ids(payload: bytes) -> list[tuple[bytes, bytes]]:
    request = ExportTraceServiceRequest.FromString(payload)
    return [
        (span.trace_id, span.span_id) for rs in request.resource_spans for ss in rs.scope_spans for span in ss.spans
    ]


def test_a_good_request_is_journalled_as_the_bytes_that_came(wire: bytes) -> None:
    # Fields in another order than any library writes, and one of tomorrow: still the same bytes.
    odd = b"\xfa\x7f\x03new" + wire
    checked = check(Signal.TRACES, Encoding.PROTOBUF, odd)
    assert checked.payload is odd
    assert (checked.items, checked.rejected, checked.message) == (1, {}, "")


@each(
    ("ids", "reason"),
    [
        ((b"", S, b""), "invalid_trace_id"),
        ((T[:15], S, b""), "invalid_trace_id"),
        ((T + T, S, b""), "invalid_trace_id"),
        ((bytes(16), S, b""), "invalid_trace_id"),
        ((T, b"", b""), "invalid_span_id"),
        ((T, S[:7], b""), "invalid_span_id"),
        ((T, bytes(8), b""), "invalid_span_id"),
        ((T, S, S[:4]), "invalid_parent_span_id"),
        ((T, S, T), "invalid_parent_span_id"),
    ],
)
def test_13_spans_with_wrong_ids_are_rejected_and_the_others_kept(
    request_of: RequestOf, ids: tuple[bytes, bytes, bytes], reason: str
) -> None:
    other = bytes([9] * 8)
    wire = request_of((T, S, other), ids, (T, other, b""), ids).SerializeToString()
    checked = check(Signal.TRACES, Encoding.PROTOBUF, wire)
    assert span_ids(checked.payload) == [(T, S), (T, other)]
    assert (checked.items, checked.rejected) == (2, {reason: 2})
    assert checked.message.startswith("2 spans rejected: ")


def test_9_unknown_fields_survive_the_removal_of_a_bad_span(request_of: RequestOf) -> None:
    request = request_of((T, S, b""), (b"", S, b""))
    unknown = b"\xfa\x7f\x03new"
    good = request.resource_spans[0].scope_spans[0].spans[0]
    good.MergeFromString(unknown)
    request.resource_spans[0].resource.MergeFromString(unknown)
    request.MergeFromString(unknown)
    checked = check(Signal.TRACES, Encoding.PROTOBUF, request.SerializeToString())
    assert checked.items == 1
    assert checked.payload.count(unknown) == 3


@each(
    "envelope",
    [
        {},
        {"resourceSpans": []},
        {"resourceSpans": [{}]},
        {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": []}]}]},
    ],
)
def test_2_empty_requests_and_envelopes_hold_nothing_and_are_no_mistake(envelope: Any) -> None:
    checked = check(Signal.TRACES, Encoding.JSON, orjson.dumps(envelope))
    assert (checked.items, checked.rejected, checked.message) == (0, {}, "")
    assert check(Signal.TRACES, Encoding.PROTOBUF, checked.payload).items == 0


def test_log_records_and_data_points_are_counted() -> None:
    logs = ExportLogsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1)
    logs.resource_logs.add().scope_logs.add().log_records.add(trace_id=b"odd ids are the log's own matter")
    metrics = ExportMetricsServiceRequest()
    scope = metrics.resource_metrics.add().scope_metrics.add()
    scope.metrics.add(name="no data")
    scope.metrics.add(name="sum").sum.data_points.add(as_int=1)
    scope.metrics[1].sum.data_points.add(as_int=2)
    scope.metrics.add(name="summary").summary.data_points.add(count=1)
    for signal, request, items in ((Signal.LOGS, logs, 2), (Signal.METRICS, metrics, 3)):
        wire = request.SerializeToString()
        checked = check(signal, Encoding.PROTOBUF, wire)
        assert checked.payload is wire
        assert checked.items == items


def test_json_becomes_protobuf(request_of: RequestOf) -> None:
    request = request_of()
    checked = check(Signal.TRACES, Encoding.JSON, orjson.dumps(to_json(request)))
    assert ExportTraceServiceRequest.FromString(checked.payload) == request


def test_spans_with_values_of_a_wrong_type_are_rejected_and_explained(request_of: RequestOf) -> None:
    document: Any = to_json(request_of((T, S, b""), (T, T[:8], b""), (b"", S, b"")))
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["name"] = 5
    checked = check(Signal.TRACES, Encoding.JSON, orjson.dumps(document))
    assert (checked.items, checked.rejected) == (1, {"invalid_trace_id": 1, "malformed": 1})
    assert "1 span rejected: trace ids must be 16 bytes and not all zero" in checked.message
    assert "$.name: expected a string, found 5" in checked.message


def test_37_ignored_snake_case_keys_are_a_warning(request_of: RequestOf) -> None:
    document: Any = to_json(request_of())
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["end_time_unix_nano"] = "5"
    checked = check(Signal.TRACES, Encoding.JSON, orjson.dumps(document))
    assert (checked.items, checked.rejected) == (1, {})
    assert checked.message == "1 keys in snake_case were ignored; OTLP/JSON keys are lowerCamelCase"


@each("signal", [Signal.TRACES, Signal.LOGS, Signal.METRICS])
def test_garbage_is_undecodable(signal: Signal) -> None:
    with not_taken("undecodable", match=f"not an OTLP {signal.name.lower()} request in protobuf"):
        check(signal, Encoding.PROTOBUF, b"\xff\xff\xff garbage")
    with not_taken("undecodable", match=f"not an OTLP {signal.name.lower()} request in JSON: \\$: not JSON"):
        check(signal, Encoding.JSON, b"\x0a\x00")


@each("encoding", list(Encoding))
@each("filler", [0, 2 * 1024**2], ids=["small", "large"])
def test_44_text_that_is_not_utf_8_is_repaired_and_remarked(
    request_of: RequestOf, encoding: Encoding, filler: int
) -> None:
    request = request_of((T, S, b""), (T, T[:8], b""))
    request.resource_spans.add().scope_spans.add().spans.add(trace_id=T, span_id=S, name="x" * filler)
    request.resource_spans[0].scope_spans[0].spans[1].name = "caf?"
    wire = orjson.dumps(to_json(request)) if encoding is Encoding.JSON else request.SerializeToString()
    checked = check(Signal.TRACES, encoding, wire.replace(b"caf?", b"caf\xc3"))
    request.resource_spans[0].scope_spans[0].spans[1].name = "caf\ufffd"
    assert checked.payload == request.SerializeToString()
    assert (checked.items, checked.rejected, checked.repaired) == (3, {}, {"shop": 1})
    assert checked.message.startswith("1 text not in UTF-8")


def test_44_damaged_bytes_cost_a_log_record_and_no_request() -> None:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    scope.log_records.add(severity_text="good")
    scope.log_records.add(severity_text="bad!")
    wire = request.SerializeToString().replace(b"\x1a\x04bad!", b"\x1a\x7fbad!")
    checked = check(Signal.LOGS, Encoding.PROTOBUF, wire)
    assert (checked.items, checked.rejected) == (1, {"malformed": 1})
    assert checked.message.startswith("1 log record rejected: ")


@settings(max_examples=3 * settings().max_examples)
@given(
    wire=st.binary() | st.binary().map(lambda body: b"\x0a" + bytes([len(body) & 0x7F]) + body),
    signal=st.sampled_from([Signal.TRACES, Signal.LOGS, Signal.METRICS]),
    encoding=st.sampled_from(list(Encoding)),
)
def test_checking_never_raises_but_its_own_error_on_any_bytes(wire: bytes, signal: Signal, encoding: Encoding) -> None:
    with suppress(NotTaken):
        check(signal, encoding, wire)


@given(
    ids=st.lists(
        st.tuples(
            st.sampled_from([T, b"", bytes(16), T[:8]]),
            st.sampled_from([S, b"", bytes(8), T]),
            st.sampled_from([b"", S, T]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_span_is_kept_or_rejected_and_what_is_kept_is_whole(ids: list[tuple[bytes, bytes, bytes]]) -> None:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for trace_id, span_id, parent_span_id in ids:
        scope.spans.add(trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id)
    checked = check(Signal.TRACES, Encoding.PROTOBUF, request.SerializeToString())
    assert checked.items + sum(checked.rejected.values()) == len(ids)
    assert span_ids(checked.payload) == [
        (trace_id, span_id)
        for trace_id, span_id, parent in ids
        if trace_id == T and span_id == S and parent in (b"", S)
    ]
