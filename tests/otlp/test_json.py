"""OTLP/JSON; the numbers are those of the OTLP server checklist: 36 ids, 37 keys, ... 43 round trip."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from build import each
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.otlp.json import MAX_NESTING, OtlpJsonError, parse_document, read_request, to_json
from tracegrade.otlp.request import REQUESTS, containers

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"


def document(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def span_of(span: Any) -> Any:
    """The span as read; it must not have been dropped."""
    read = read_request(Signal.TRACES, document(span))
    assert read.problems == []
    [found] = read.message.resource_spans[0].scope_spans[0].spans
    return found


def value_of(any_value: Any) -> Any:
    return span_of({"attributes": [{"key": "k", "value": any_value}]}).attributes[0].value


def problem_of(span: Any) -> str:
    """Why the span was dropped; a good neighbour must have been kept."""
    read = read_request(Signal.TRACES, document(span, {"name": "good"}))
    assert read.dropped == 1
    assert [kept.name for kept in read.message.resource_spans[0].scope_spans[0].spans] == ["good"]
    [problem] = read.problems
    return problem


@pytest.mark.parametrize("spelling", [str.upper, str.lower, str.swapcase])
def test_36_ids_are_hex_in_any_case_also_in_links(spelling: Any) -> None:
    span = span_of(
        {
            "traceId": spelling(TRACE_ID),
            "spanId": spelling(SPAN_ID),
            "parentSpanId": spelling(SPAN_ID),
            "links": [{"traceId": spelling(TRACE_ID), "spanId": spelling(SPAN_ID)}],
        }
    )
    ids = [span.trace_id, span.span_id, span.parent_span_id, span.links[0].trace_id, span.links[0].span_id]
    assert [id_.hex() for id_ in ids] == [TRACE_ID, SPAN_ID, SPAN_ID, TRACE_ID, SPAN_ID]


def test_36_ids_of_log_records_and_exemplars_are_hex() -> None:
    log = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": TRACE_ID, "spanId": SPAN_ID}]}]}]}
    exemplar = {"traceId": TRACE_ID, "spanId": SPAN_ID, "asInt": "1"}
    metric = {"name": "m", "sum": {"dataPoints": [{"asDouble": 1, "exemplars": [exemplar]}]}}
    metrics = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}
    record: Any = read_request(Signal.LOGS, log).message
    found: Any = read_request(Signal.METRICS, metrics).message
    [record] = record.resource_logs[0].scope_logs[0].log_records
    [point] = found.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points
    for holder in (record, point.exemplars[0]):
        assert (holder.trace_id.hex(), holder.span_id.hex()) == (TRACE_ID, SPAN_ID)


@each("bad", ["xyz", "abc", "0af7 6519", "ü" * 32, 7, ["ab"], {}])
def test_36_an_id_that_is_not_hex_costs_its_span_and_no_other(bad: Any) -> None:
    problem = problem_of({"traceId": bad})
    assert problem.startswith("span null: $.traceId: expected an id in hexadecimal")


def test_37_snake_case_keys_are_unknown_keys_and_counted() -> None:
    read = read_request(Signal.TRACES, document({"trace_id": TRACE_ID, "traceId": TRACE_ID, "start_time_unix_nano": 1}))
    span = read.message.resource_spans[0].scope_spans[0].spans[0]  # type: ignore[attr-defined]
    assert (span.trace_id.hex(), span.start_time_unix_nano, read.snake_case_keys) == (TRACE_ID, 0, 2)


def test_37_a_key_that_is_spelt_alike_in_both_is_known() -> None:
    assert read_request(Signal.TRACES, document({"name": "n"})).snake_case_keys == 0


def test_38_enums_are_integers() -> None:
    span = span_of({"kind": 3, "status": {"code": 2}})
    assert (span.kind, span.status.code) == (3, 2)


@each("bad", ["SPAN_KIND_CLIENT", "3", 3.0, True, 2**31])
def test_38_enum_names_and_texts_are_refused(bad: Any) -> None:
    assert "$.kind: expected an enum's number" in problem_of({"kind": bad})


def test_39_unknown_keys_are_ignored_at_every_level() -> None:
    future = {"tomorrow": [{"deep": {"er": 1}}]}
    span = {"name": "n", "attributes": [{"key": "k", "value": {"intValue": 1, **future}, **future}], **future}
    read = read_request(
        Signal.TRACES,
        {"resourceSpans": [{"scopeSpans": [{"spans": [span], **future}], "resource": future, **future}], **future},
    )
    plain = {"name": "n", "attributes": [{"key": "k", "value": {"intValue": 1}}]}
    expected = read_request(Signal.TRACES, {"resourceSpans": [{"scopeSpans": [{"spans": [plain]}], "resource": {}}]})
    assert read.message == expected.message
    assert read.dropped == 0


@pytest.mark.parametrize("written", ["1700000000000000001", 1700000000000000001])
def test_40_integers_of_64_bits_are_texts_or_numbers(written: Any) -> None:
    assert span_of({"startTimeUnixNano": written}).start_time_unix_nano == 1700000000000000001
    assert value_of({"intValue": written}).int_value == 1700000000000000001


@each(
    ("text", "expected"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ('"9223372036854775807"', 2**63 - 1),
        ("12.0", 12),
        ("1e3", 1000),
        ("-0", 0),
    ],
)
def test_40_int_values_are_exact(text: str, expected: int) -> None:
    value = value_of(orjson.loads(f'{{"intValue": {text}}}'))
    assert value.WhichOneof("value") == "int_value"
    assert value.int_value == expected


@each(
    "text",
    [
        "9223372036854775808",
        "-9223372036854775809",  # a float once decoded, and its neighbour -2**63 would fit
        "123456789012345678901234567890",
        '"9223372036854775808"',
        '"12.5"',
        '" 12"',
        '"1_0"',
        '"٣"',
        '""',
        '"' + "9" * 5000 + '"',
        "1.5",
        "true",
        "[]",
    ],
)
def test_40_an_int_value_out_of_range_or_of_another_type_costs_its_span(text: str) -> None:
    attribute = {"key": "k", "value": orjson.loads(f'{{"intValue": {text}}}')}
    problem = problem_of({"attributes": [attribute]})
    assert problem.startswith("span null: $.attributes[0].value.intValue: expected an int")
    assert len(problem) < 250


@each(
    ("text", "expected"),
    [("+/8=", b"\xfb\xff"), ("+/8", b"\xfb\xff"), ("-_8=", b"\xfb\xff"), ("", b""), ("AAEC", b"\0\1\2")],
)
def test_41_bytes_are_base64(text: str, expected: bytes) -> None:
    assert value_of({"bytesValue": text}).bytes_value == expected


@each("bad", ["A", "A A=", "?", 5, "AAAAA"])
def test_41_bytes_that_are_not_base64_cost_their_span(bad: Any) -> None:
    assert "bytesValue: expected base64" in problem_of({"attributes": [{"key": "k", "value": {"bytesValue": bad}}]})


def test_41_null_is_unset() -> None:
    span = span_of({"name": None, "status": None, "attributes": None, "flags": None, "traceId": None})
    assert span.ListFields() == []


@each(
    ("written", "expected"),
    [("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf"), (1, "1.0"), (0.5, "0.5"), ("0.5", "0.5")],
)
def test_41_doubles_are_numbers_or_names(written: Any, expected: str) -> None:
    assert str(value_of({"doubleValue": written}).double_value) == expected


@each("bad", ["nan", "inf", "1_0", " 1", "", True, []])
def test_41_other_words_are_no_doubles(bad: Any) -> None:
    problem = problem_of({"attributes": [{"key": "k", "value": {"doubleValue": bad}}]})
    assert "doubleValue: expected a number" in problem


def test_42_nesting_is_taken_as_deep_as_protobuf_parsers_do_and_no_deeper() -> None:
    # Request, resource, scope, span, attribute and value are 6 levels; an array in an array is two more.
    def request(arrays: int) -> Any:
        value: Any = {"intValue": 1}
        for _ in range(arrays):
            value = {"arrayValue": {"values": [value]}}
        return document({"attributes": [{"key": "k", "value": value}]})

    deepest = (MAX_NESTING - 6) // 2
    message = read_request(Signal.TRACES, request(deepest)).message
    assert ExportTraceServiceRequest.FromString(message.SerializeToString()) == message
    with pytest.raises(OtlpJsonError, match="nested more than 100 messages deep"):
        read_request(Signal.TRACES, request(deepest + 1))


def test_42_a_document_of_nothing_but_brackets_is_refused() -> None:
    with pytest.raises(OtlpJsonError, match="not JSON: depth limit"):
        parse_document(b"[" * 100_000)


EVERY_VALUE = [
    {"stringValue": ""},
    {"stringValue": "héllo \u0000 😀"},
    {"boolValue": False},
    {"boolValue": True},
    {"intValue": "0"},
    {"intValue": "-9223372036854775808"},
    {"doubleValue": 0.0},
    {"doubleValue": 1.5e300},
    {"doubleValue": "NaN"},
    {"doubleValue": "-Infinity"},
    {"bytesValue": ""},
    {"bytesValue": "AP8="},
    {"arrayValue": {}},
    {"arrayValue": {"values": [{}, {"stringValue": "a"}, {"arrayValue": {"values": [{"intValue": "1"}]}}]}},
    {"kvlistValue": {}},
    {"kvlistValue": {"values": [{"key": "a", "value": {"kvlistValue": {"values": [{"key": "b", "value": {}}]}}}]}},
    {},
]
ATTRIBUTES = [{"key": f"k{index}", "value": value} for index, value in enumerate(EVERY_VALUE)]
SCOPE = {"name": "scope", "version": "1", "attributes": ATTRIBUTES, "droppedAttributesCount": 1}
RESOURCE = {"attributes": ATTRIBUTES, "droppedAttributesCount": 2}
EXEMPLAR = {
    "filteredAttributes": ATTRIBUTES,
    "timeUnixNano": "1",
    "asInt": "-5",
    "traceId": TRACE_ID,
    "spanId": SPAN_ID,
}
POINT = {"attributes": ATTRIBUTES, "startTimeUnixNano": "1", "timeUnixNano": "2", "flags": 1}
BUCKETS = {"offset": -3, "bucketCounts": ["0", "18446744073709551615"]}
TRACES = {
    "resourceSpans": [
        {
            "resource": RESOURCE,
            "schemaUrl": "r",
            "scopeSpans": [
                {
                    "scope": SCOPE,
                    "schemaUrl": "s",
                    "spans": [
                        {
                            "traceId": TRACE_ID,
                            "spanId": SPAN_ID,
                            "traceState": "a=b",
                            "parentSpanId": SPAN_ID,
                            "flags": 768,
                            "name": "work",
                            "kind": 2,
                            "startTimeUnixNano": "18446744073709551615",
                            "endTimeUnixNano": "2",
                            "attributes": ATTRIBUTES,
                            "droppedAttributesCount": 4294967295,
                            "events": [
                                {
                                    "timeUnixNano": "1",
                                    "name": "e",
                                    "attributes": ATTRIBUTES,
                                    "droppedAttributesCount": 1,
                                }
                            ],
                            "droppedEventsCount": 1,
                            "links": [
                                {
                                    "traceId": TRACE_ID,
                                    "spanId": SPAN_ID,
                                    "traceState": "c=d",
                                    "attributes": ATTRIBUTES,
                                    "droppedAttributesCount": 1,
                                    "flags": 1,
                                }
                            ],
                            "droppedLinksCount": 1,
                            "status": {"message": "no", "code": 2},
                        }
                    ],
                }
            ],
        }
    ]
}
LOGS = {
    "resourceLogs": [
        {
            "resource": RESOURCE,
            "scopeLogs": [
                {
                    "scope": SCOPE,
                    "logRecords": [
                        {
                            "timeUnixNano": "1",
                            "observedTimeUnixNano": "2",
                            "severityNumber": 9,
                            "severityText": "INFO",
                            "body": body,
                            "attributes": ATTRIBUTES,
                            "droppedAttributesCount": 1,
                            "flags": 1,
                            "traceId": TRACE_ID,
                            "spanId": SPAN_ID,
                            "eventName": "gen_ai.evaluation.result",
                        }
                        for body in EVERY_VALUE
                    ],
                }
            ],
        }
    ]
}
METRICS = {
    "resourceMetrics": [
        {
            "resource": RESOURCE,
            "scopeMetrics": [
                {
                    "scope": SCOPE,
                    "metrics": [
                        {"name": "g", "unit": "1", "gauge": {"dataPoints": [{**POINT, "asDouble": "Infinity"}]}},
                        {
                            "name": "s",
                            "description": "d",
                            "sum": {
                                "dataPoints": [{**POINT, "asInt": "-1", "exemplars": [EXEMPLAR]}],
                                "aggregationTemporality": 2,
                                "isMonotonic": True,
                            },
                        },
                        {
                            "name": "h",
                            "histogram": {
                                "dataPoints": [
                                    {
                                        **POINT,
                                        "count": "3",
                                        "sum": 0.0,
                                        "min": 0.0,
                                        "max": 1.0,
                                        "bucketCounts": ["1", "2"],
                                        "explicitBounds": [0.5],
                                    }
                                ],
                                "aggregationTemporality": 1,
                            },
                        },
                        {
                            "name": "e",
                            "exponentialHistogram": {
                                "dataPoints": [
                                    {
                                        **POINT,
                                        "count": "3",
                                        "scale": -4,
                                        "zeroCount": "1",
                                        "zeroThreshold": 0.1,
                                        "positive": BUCKETS,
                                        "negative": BUCKETS,
                                    }
                                ]
                            },
                        },
                        {
                            "name": "q",
                            "summary": {
                                "dataPoints": [
                                    {
                                        **POINT,
                                        "count": "3",
                                        "sum": 1.0,
                                        "quantileValues": [{"quantile": 0.5, "value": 1.0}],
                                    }
                                ]
                            },
                        },
                    ],
                }
            ],
        }
    ]
}


@pytest.mark.parametrize(
    ("signal", "golden"), [(Signal.TRACES, TRACES), (Signal.LOGS, LOGS), (Signal.METRICS, METRICS)], ids=str
)
def test_43_json_to_protobuf_to_json_is_equal_field_for_field(signal: Signal, golden: Any) -> None:
    message = read_request(signal, parse_document(orjson.dumps(golden)).value).message
    again = REQUESTS[signal].FromString(message.SerializeToString())
    assert to_json(again) == golden


def test_43_every_field_of_every_message_of_the_golden_requests_is_known_to_the_walk() -> None:
    unseen = _fields_in(to_json(read_request(Signal.TRACES, TRACES).message), ExportTraceServiceRequest.DESCRIPTOR)
    # A reference into a string table, for profiles alone; and entities, which no SDK sends yet.
    assert unseen <= {"keyStrindex", "stringValueStrindex", "entityRefs"}


def _fields_in(value: dict[str, Any], descriptor: Any) -> set[str]:
    """The JSON names of fields that `value`, of the type of `descriptor`, nowhere uses."""
    used: dict[str, set[str]] = {}

    def gather(item: dict[str, Any], of: Any) -> None:
        known = used.setdefault(of.full_name, {field.json_name for field in of.fields})
        for field in of.fields:
            if field.json_name in item:
                known.discard(field.json_name)
                inner = item[field.json_name]
                for part in inner if isinstance(inner, list) else [inner]:
                    if field.message_type is not None:
                        gather(part, field.message_type)

    gather(value, descriptor)
    return set().union(*used.values())


@each(
    ("broken", "where", "what"),
    [
        ([], "$", "expected an object, found a list"),
        ("text", "$", "expected an object, found 'text'"),
        ({"resourceSpans": {}}, "$.resourceSpans", "expected a list, found an object"),
        ({"resourceSpans": [5]}, "$.resourceSpans[0]", "expected an object, found 5"),
        ({"resourceSpans": [{"schemaUrl": 5}]}, "$.resourceSpans[0].schemaUrl", "expected a string, found 5"),
        (
            {"resourceSpans": [{}, {"resource": {"attributes": [{"key": True}]}}]},
            "$.resourceSpans[1].resource.attributes[0].key",
            "expected a string, found True",
        ),
        (
            document() | {"resourceSpans": [{"scopeSpans": [{"spans": "x"}]}]},
            "$.resourceSpans[0].scopeSpans[0].spans",
            "a list",
        ),
    ],
)
def test_a_document_broken_outside_of_a_span_is_refused_with_its_place(broken: Any, where: str, what: str) -> None:
    with pytest.raises(OtlpJsonError) as caught:
        read_request(Signal.TRACES, broken)
    assert caught.value.path == where
    assert what in str(caught.value)


def test_a_mistake_outside_of_spans_costs_what_is_in_its_resource_or_scope() -> None:
    good = {"scopeSpans": [{"spans": [{}]}]}
    broken = [
        {"schemaUrl": 5, "scopeSpans": [{"spans": [{}, {}]}, {"spans": [{}]}]},
        {"scopeSpans": [{"spans": [{}]}, {"scope": {"name": 5}, "spans": [{}, {}]}, {"spans": "x"}]},
        5,
    ]
    read = read_request(Signal.TRACES, {"resourceSpans": [*broken, good]})
    assert (sum(map(len, containers(Signal.TRACES, read.message))), read.dropped) == (2, 3 + 2 + 1 + 1)
    assert "resourceSpans[0]: $.schemaUrl: expected a string, found 5" in read.problems


def test_a_log_record_with_a_mistake_is_left_out_alone() -> None:
    records = [{"body": {"stringValue": 5}, "spanId": SPAN_ID}, {"severityText": "INFO"}]
    read = read_request(Signal.LOGS, {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    assert (sum(map(len, containers(Signal.LOGS, read.message))), read.dropped) == (1, 1)
    assert read.problems[0].startswith(f"log record {SPAN_ID!r}: $.body.stringValue")


def test_only_the_first_problems_are_described_and_all_counted() -> None:
    read = read_request(Signal.TRACES, document(*[{"name": 5}] * 1000))
    assert (read.dropped, len(read.problems)) == (1000, 5)


def test_a_lone_surrogate_becomes_a_replacement_character_and_pairs_and_backslashes_stay() -> None:
    body = rb'{"a": "x\ud83dy", "b": "\ud83d\ude00", "c": "\\ud83d", "d": "\udc00\ud800"}'
    assert parse_document(body).value == {"a": "x\ufffdy", "b": "😀", "c": "\\ud83d", "d": "\ufffd\ufffd"}


def test_what_is_not_utf_8_in_a_text_becomes_a_replacement_character_and_is_counted() -> None:
    body = b'{"a\xff": "caf\xc3", "b": ["\\ud83d", "\xe2\x82\xac \\"\xfe\\\\", {"c": "good"}]}'
    assert parse_document(body) == ({"a\ufffd": "caf\ufffd", "b": ["\ufffd", '\u20ac "\ufffd\\', {"c": "good"}]}, 4)
    assert parse_document('{"a": "\ufffd"}'.encode()).repaired_texts == 0


@each("body", [b"", b"{", b"\xff", b'{"a": "\xff"', b"\xff{}", b'{"a": NaN}', b"{}{}", b'"\\ud800', b"1e999"])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(OtlpJsonError, match="not JSON"):
        parse_document(body)


_KEYS = st.sampled_from(sorted({field.json_name for field in Span.DESCRIPTOR.fields} | {"key", "value", "values"}))
_ANY_KEYS = _KEYS | st.sampled_from(sorted({field.json_name for field in AnyValue.DESCRIPTOR.fields}))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(TRACE_ID),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_ANY_KEYS, inner, max_size=5),
    max_leaves=40,
)


@settings(max_examples=3 * settings().max_examples)
@given(value=_JSON, as_span=st.booleans())
def test_the_walk_never_raises_but_its_own_error_on_any_json(value: Any, as_span: bool) -> None:
    try:
        read = read_request(Signal.TRACES, document(value) if as_span else value)
    except OtlpJsonError:
        return
    assert ExportTraceServiceRequest.FromString(read.message.SerializeToString()) == read.message or has_nan(
        read.message
    )


def has_nan(message: Message) -> bool:
    return "nan" in str(message)


def test_a_dropped_span_is_named_by_its_id() -> None:
    assert problem_of({"spanId": SPAN_ID, "name": 5}) == f"span '{SPAN_ID}': $.name: expected a string, found 5"


@settings(max_examples=2 * settings().max_examples)
@given(body=st.binary())
def test_parsing_never_raises_but_its_own_error_on_any_bytes(body: bytes) -> None:
    with suppress(OtlpJsonError):
        parse_document(body)


CORPUS = os.environ.get("TRACEGRADE_CORPUS")


@pytest.mark.skipif(not CORPUS, reason="TRACEGRADE_CORPUS does not name a folder of captures (NAME.jsonl, NAME.binpb)")
def test_every_capture_in_json_reads_as_its_protobuf_twin() -> None:
    captures = [path for path in Path(CORPUS or "").rglob("*.jsonl") if not path.name.endswith(".raw.jsonl")]
    assert captures
    for path in captures:
        requests = read_sources([str(path.with_suffix(".binpb"))], SourceReport())
        for line, request in zip(path.read_bytes().splitlines(), requests, strict=True):
            read = read_request(request.signal, parse_document(line))
            expected = REQUESTS[request.signal].FromString(request.payload)
            assert read.message == expected, path
            assert read.dropped == 0
            assert to_json(expected) == orjson.loads(line), path
