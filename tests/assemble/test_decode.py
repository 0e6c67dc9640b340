import math
import tracemalloc
from dataclasses import fields

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from build import each
from tracegrade.assemble.decode import Decoder
from tracegrade.codec.raw_spans import RawReader, RawSpan
from tracegrade.codec.span_reader import AttributeFilter, json_value
from tracegrade.match.demand import NOTHING, Demand
from tracegrade.model.span import Span, SpanEvent


def attribute(key: str, **value: object) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(**value))


def request_with(*attributes: KeyValue, scope: str = "lib") -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.append(attribute("service.name", string_value="shop"))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = scope
    one = scope_spans.spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="n", kind=3, flags=0x101)
    one.attributes.extend(attributes)
    one.status.code = 2
    one.status.message = "bad"
    return request


MARKS = frozenset({"tool.name"})
FILTER = AttributeFilter(frozenset({"tool.name", "flag"}), ("llm.",), frozenset({"exception"}), MARKS)


def test_only_wanted_keys_and_prefixes_are_kept() -> None:
    request = request_with(
        attribute("tool.name", string_value="search"),
        attribute("llm.x.0", int_value=7),
        attribute("http.method", string_value="GET"),
        attribute("flag", string_value=""),
    )
    (decoded,) = Decoder(FILTER).spans(request.SerializeToString())
    assert decoded.attributes == {"tool.name": "search", "llm.x.0": 7, "flag": ""}
    assert (decoded.status_code, decoded.status_message, decoded.kind) == (2, "bad", 3)
    assert decoded.resource.service == "shop"
    assert decoded.scope == "lib"


def test_only_wanted_events_are_kept_whole() -> None:
    request = request_with()
    events = request.resource_spans[0].scope_spans[0].spans[0].events
    events.add(name="exception", time_unix_nano=5).attributes.append(attribute("exception.type", string_value="E"))
    events.add(name="noise")
    (decoded,) = Decoder(FILTER).spans(request.SerializeToString())
    assert [(event.name, event.time_ns, event.attributes) for event in decoded.events] == [
        ("exception", 5, {"exception.type": "E"})
    ]


def test_spans_of_our_own_scope_are_counted_and_passed_over() -> None:
    decoder = Decoder(FILTER)
    assert decoder.spans(request_with(scope="tracegrade").SerializeToString()) == []
    assert decoder.own_spans == 1


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
ATTRIBUTES = st.builds(
    KeyValue,
    key=st.sampled_from(["tool.name", "flag", "llm.x", "llm.y", "http.method", ""]) | TEXTS,
    value=st.none()
    | st.builds(AnyValue, string_value=TEXTS)
    | st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1))
    | st.builds(
        AnyValue, array_value=st.builds(ArrayValue, values=st.lists(st.builds(AnyValue, bool_value=st.just(True))))
    )
    | st.builds(AnyValue, kvlist_value=st.builds(KeyValueList, values=st.just([KeyValue(key="k")]))),
)


@given(st.lists(ATTRIBUTES, max_size=8))
def test_attributes_are_kept_in_order_of_their_keys_and_the_last_of_one_name_counts(attributes: list[KeyValue]) -> None:
    (decoded,) = Decoder(FILTER).spans(request_with(*attributes).SerializeToString())
    kept = {
        pair.key: json_value(pair.value)
        for pair in attributes
        if pair.key in FILTER.attributes or pair.key.startswith(FILTER.prefixes)
    }
    assert list(decoded.attributes.items()) == sorted(kept.items())


def test_a_sender_that_invents_keys_without_end_is_decoded_alike() -> None:
    decoder = Decoder(FILTER)
    for number in (0, *range(2_000), 0):  # more sets of keys than are learnt
        request = request_with(attribute(f"llm.{number}", int_value=1), attribute(f"x.{number}", int_value=2))
        (decoded,) = decoder.spans(request.SerializeToString())
        assert decoded.attributes == {f"llm.{number}": 1}


def test_a_span_with_very_many_keys_is_decoded_alike_every_time() -> None:
    decoder = Decoder(FILTER)
    request = request_with(*(attribute(f"{prefix}.{n:03}", int_value=n) for n in range(100) for prefix in ("llm", "x")))
    expected = {f"llm.{n:03}": n for n in range(100)}
    for _ in range(2):
        (decoded,) = decoder.spans(request.SerializeToString())
        assert list(decoded.attributes.items()) == list(expected.items())


@given(st.binary(max_size=80))
def test_bytes_that_are_no_request_raise_one_error(payload: bytes) -> None:
    try:
        ExportTraceServiceRequest.FromString(payload)
    except DecodeError:
        with pytest.raises(DecodeError):
            Decoder(FILTER).spans(payload)
    else:
        Decoder(FILTER).spans(payload)


def test_a_span_without_a_status_is_unset() -> None:
    request = request_with()
    request.resource_spans[0].scope_spans[0].spans[0].ClearField("status")
    (decoded,) = Decoder(FILTER).spans(request.SerializeToString())
    assert (decoded.status_code, decoded.status_message, decoded.events) == (0, "", [])


@each(
    ("value", "expected"),
    [
        (AnyValue(), None),
        (AnyValue(bool_value=False), False),
        (AnyValue(int_value=-(2**63)), -(2**63)),
        (AnyValue(double_value=0.5), 0.5),
        (AnyValue(double_value=math.nan), "NaN"),
        (AnyValue(double_value=-math.inf), "-Infinity"),
        (AnyValue(bytes_value=b"\xff"), "/w=="),
        (AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1), AnyValue()])), [1, None]),
        (AnyValue(kvlist_value=KeyValueList(values=[attribute("k", bool_value=True)])), {"k": True}),
    ],
)
def test_any_values_become_json(value: AnyValue, expected: object) -> None:
    assert json_value(value) == expected


@each(
    ("name", "keys", "noted"),
    [
        ("step", ["acme.tool", "acme.args"], ["acme.args", "acme.tool"]),
        ("run_tool", ["b", "a"], ["a", "b"]),
        ("run_tool", [], []),
        ("step", ["a"], None),
        ("run_tool", ["tool.name", "acme.tool"], None),
    ],
    ids=["by a key", "by its name", "without attributes", "not at all", "known to a dialect"],
)
def test_the_keys_of_a_span_that_no_dialect_knows_are_noted_when_it_looks_like_a_tool(
    name: str, keys: list[str], noted: list[str] | None
) -> None:
    request = request_with(*(attribute(key, string_value="x") for key in keys))
    request.resource_spans[0].scope_spans[0].spans[0].name = name
    decoder = Decoder(FILTER)
    for _ in range(2):
        (decoded,) = decoder.spans(request.SerializeToString())
        assert decoded.unread_keys == (None if noted is None else tuple(noted))


def test_of_very_many_keys_some_are_noted() -> None:
    request = request_with(*(attribute(f"tool.{number:04}", int_value=number) for number in range(1000)))
    (decoded,) = Decoder(FILTER).spans(request.SerializeToString())
    assert decoded.unread_keys == tuple(f"tool.{number:04}" for number in range(64))


def log_record(name: str = "gen_ai.choice", **changes: object) -> LogRecord:
    made = LogRecord(trace_id=b"t" * 16, span_id=b"s" * 8, event_name=name, time_unix_nano=5)
    made.attributes.append(attribute("x", int_value=1))
    made.body.kvlist_value.values.append(attribute("index", int_value=0))
    made.MergeFrom(LogRecord(**changes))
    return made


def logs_request(*log_records: LogRecord, scope: str = "lib") -> bytes:
    request = ExportLogsServiceRequest()
    scope_logs = request.resource_logs.add().scope_logs.add(log_records=log_records)
    scope_logs.scope.name = scope
    return request.SerializeToString()


LOGS_FILTER = AttributeFilter(frozenset(), events=frozenset({"gen_ai.choice"}))


def test_a_log_record_is_an_event_of_its_span_with_the_members_of_its_body() -> None:
    (decoded,) = Decoder(LOGS_FILTER).log_records(logs_request(log_record()))
    assert (decoded.trace_id, decoded.span_id, decoded.scope) == (b"t" * 16, b"s" * 8, "lib")
    assert decoded.event == SpanEvent("gen_ai.choice", 5, {"x": 1, "index": 0})


def test_the_time_at_which_it_was_observed_stands_in_for_a_log_records_own() -> None:
    made = log_record(observed_time_unix_nano=7)
    made.ClearField("time_unix_nano")
    (decoded,) = Decoder(LOGS_FILTER).log_records(logs_request(made))
    assert decoded.event.time_ns == 7


@pytest.mark.parametrize(("text", "kept"), [('{"index": 0}', {"body": '{"index": 0}'}), ("a choice was made", {})])
def test_a_body_as_text_is_kept_where_it_may_be_an_object(text: str, kept: dict[str, str]) -> None:
    made = log_record()
    made.body.string_value = text
    (decoded,) = Decoder(LOGS_FILTER).log_records(logs_request(made))
    assert decoded.event.attributes == {"x": 1} | kept


def test_an_event_name_may_be_an_attribute() -> None:
    made = log_record("")
    made.attributes.append(attribute("event.name", string_value="gen_ai.choice"))
    (decoded,) = Decoder(LOGS_FILTER).log_records(logs_request(made))
    assert decoded.event.name == "gen_ai.choice"


@each(
    "made",
    [
        log_record("app.started"),
        log_record(""),
        LogRecord(event_name="gen_ai.choice", span_id=b"s" * 8),
        LogRecord(event_name="gen_ai.choice", trace_id=b"t" * 16),
        LogRecord(event_name="gen_ai.choice", trace_id=bytes(16), span_id=bytes(8)),
        LogRecord(event_name="gen_ai.choice", trace_id=b"t", span_id=b"s"),
        log_record("lib"),
    ],
    ids=["unwanted", "no event", "no trace", "no span", "zero ids", "broken ids", "named after its scope, no content"],
)
def test_log_records_that_nobody_reads_are_passed_over(made: LogRecord) -> None:
    assert Decoder(LOGS_FILTER).log_records(logs_request(made)) == []


def test_log_records_of_tool_calls_that_name_no_span_are_counted_by_their_sender() -> None:
    request = ExportLogsServiceRequest()
    of_qwen = request.resource_logs.add()
    of_qwen.resource.attributes.append(attribute("service.name", string_value="qwen-code"))
    named = LogRecord()
    named.attributes.append(attribute("event.name", string_value="qwen-code.tool_call"))
    without_span = LogRecord(event_name="codex.tool_result", trace_id=b"t" * 16)
    zeros = LogRecord(event_name="codex.tool_result", trace_id=bytes(16), span_id=bytes(8))
    others = [LogRecord(event_name="app.started"), LogRecord(), log_record("acme.tool_call")]
    of_qwen.scope_logs.add(log_records=[named, named, without_span, zeros, *others]).scope.name = "lib"
    decoder = Decoder(LOGS_FILTER)
    assert decoder.log_records(request.SerializeToString()) == []
    assert decoder.unread_log_records == {
        ("qwen-code", "lib", "qwen-code.tool_call", "trace id"): 2,
        ("qwen-code", "lib", "codex.tool_result", "span id"): 1,
        ("qwen-code", "lib", "codex.tool_result", "trace id"): 1,
    }
    assert decoder.unwanted_log_records == 7


def test_senders_of_log_records_that_name_no_span_are_counted_up_to_a_bound() -> None:
    decoder = Decoder(LOGS_FILTER)
    for number in range(300):
        decoder.log_records(logs_request(LogRecord(event_name=f"acme.tool_call.{number}")))
    assert (len(decoder.unread_log_records), decoder.unread_log_records.total()) == (201, 300)
    assert decoder.unread_log_records["other", "other", "other", "trace id"] == 100


KNOWN_WHOLE = AttributeFilter(
    frozenset(), by_shape=True, own_names=("acme.",), passed_over=frozenset({("acme.logs", "decision")})
)


def test_log_events_that_a_dialect_knows_and_does_not_read_are_not_kept_to_be_read_by_shape() -> None:
    made = log_record("decision")
    made.attributes.append(attribute("tool_name", string_value="search"))
    decoder = Decoder(KNOWN_WHOLE)
    assert decoder.log_records(logs_request(made, scope="acme.logs")) == []
    assert [record.event.name for record in decoder.log_records(logs_request(made, scope="other"))] == ["decision"]


def test_spans_that_a_dialect_knows_by_their_names_are_not_kept_whole() -> None:
    request = request_with(attribute("tool_name", string_value="search"))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    kept = []
    for name in ("acme.tool", "tool"):
        span.name = name
        kept += Decoder(KNOWN_WHOLE).spans(request.SerializeToString())
    assert [span.is_whole for span in kept] == [False, True]


@pytest.mark.parametrize("side", ["input", "output"])
def test_content_moved_to_an_event_named_after_its_scope_is_kept(side: str) -> None:
    made = log_record("lib")
    made.body.kvlist_value.values.append(attribute(side, kvlist_value=KeyValueList()))
    (decoded,) = Decoder(LOGS_FILTER).log_records(logs_request(made))
    assert decoded.event.attributes == {"x": 1, "index": 0, side: {}}


def test_log_records_of_our_own_scope_are_counted_and_passed_over() -> None:
    decoder = Decoder(LOGS_FILTER)
    assert decoder.log_records(logs_request(log_record(), log_record(), scope="tracegrade")) == []
    assert decoder.own_log_records == 2


@given(st.binary(max_size=80))
def test_bytes_that_are_no_logs_request_raise_one_error(payload: bytes) -> None:
    try:
        ExportLogsServiceRequest.FromString(payload)
    except DecodeError:
        with pytest.raises(DecodeError):
            Decoder(LOGS_FILTER).log_records(payload)
    else:
        Decoder(LOGS_FILTER).log_records(payload)


def test_long_keys_are_not_remembered() -> None:
    decoder = Decoder(FILTER)
    tracemalloc.start()
    try:
        for number in range(40):
            decoder.spans(request_with(attribute(f"llm.{number}" + "x" * 100_000, int_value=1)).SerializeToString())
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_000_000


def test_values_nested_as_deep_as_protobuf_takes_them_become_json() -> None:
    value = AnyValue(int_value=7)
    for _ in range(40):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    (span,) = Decoder(FILTER).spans(request_with(KeyValue(key="flag", value=value)).SerializeToString())
    assert repr(span.attributes["flag"]) == "[" * 40 + "7" + "]" * 40


def test_a_request_that_rules_ask_for_whole_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = request_with(attribute("flag", bool_value=True)), request_with(scope="other")
    both = one.SerializeToString() + two.SerializeToString()
    asked = {"lib": Demand(1.0), "other": Demand(1.0)}
    decoder = Decoder(FILTER, demand_of=lambda origin: asked[origin.scope])
    with monkeypatch.context() as patched:
        patched.setattr(RawReader, "groups", None)  # a second look at every span
        decoded = decoder.spans(both)
    assert decoded == Decoder(FILTER).spans(both)
    asked["other"] = NOTHING
    assert [type(span) for span in decoder.spans(both)] == [Span, RawSpan]
    assert decoder.spans(both) == decoded


def test_a_span_held_as_it_came_has_the_fields_of_the_decoded_one() -> None:
    request = request_with(attribute("flag", bool_value=True))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.dropped_attributes_count = 2
    span.events.add(name="exception", time_unix_nano=3)
    (held,) = Decoder(FILTER, demand_of=lambda origin: NOTHING).spans(request.SerializeToString())
    (decoded,) = Decoder(FILTER).spans(request.SerializeToString())
    assert type(held) is RawSpan
    for name in [field.name for field in fields(Span)]:
        assert getattr(held, name) == getattr(decoded, name), name
    assert held.attributes is held.attributes  # decoded once
