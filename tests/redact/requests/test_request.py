"""Whole requests, redacted in place."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from build.otlp import any_value
from build.redaction import KEY, MAIL, attributes_of, one_span, redacted, request_redactor, set_attributes
from otlp.test_repair import DOCUMENTS, full
from tracegrade.model.signal import Signal
from tracegrade.receive.redacted import next_turn


def test_a_request_in_which_nothing_is_found_goes_on_as_the_bytes_that_came() -> None:
    # A field that this version does not know, and a length written with more bytes than it needs.
    wire = one_span(a="b").SerializeToString() + b"\x9a\x06\x83\x00abc"
    assert request_redactor(detectors=[]).redacted(Signal.TRACES, wire, "default").payload is wire


def test_every_part_of_a_span_is_looked_at() -> None:
    request = one_span(text=MAIL, **{MAIL: "key"})
    resource = request.resource_spans[0]
    set_attributes(resource.resource.attributes, owner=MAIL)
    scope = resource.scope_spans[0]
    scope.scope.name = f"lib {MAIL}"
    set_attributes(scope.scope.attributes, of=MAIL)
    (span,) = scope.spans
    span.name = f"mail {MAIL}"
    span.trace_state = f"a={MAIL}"
    span.status.message = f"to {MAIL}: failed"
    event = span.events.add(name=f"sent to {MAIL}")
    set_attributes(event.attributes, exception__message=MAIL)
    link = span.links.add(trace_id=b"x" * 16, span_id=b"y" * 8, trace_state=f"b={MAIL}")
    set_attributes(link.attributes, why=MAIL)
    set_attributes(span.attributes, list=[MAIL, {"deep": [MAIL]}], bytes=MAIL.encode(), json=json.dumps({"a": [MAIL]}))
    found = redacted(request)
    assert MAIL.encode() not in found.SerializeToString()
    (span,) = found.resource_spans[0].scope_spans[0].spans
    assert (span.trace_id, span.span_id, span.links[0].trace_id) == (b"t" * 16, b"s" * 8, b"x" * 16)
    assert span.name == "mail [redacted:email]"
    assert json.loads(attributes_of(found)["tracegrade.redacted"]) == {
        "(key)": {"email": 1},
        "bytes": {"email": 1},
        "events.exception.message": {"email": 1},
        "events.name": {"email": 1},
        "json": {"email": 1},
        "links.trace_state": {"email": 1},
        "links.why": {"email": 1},
        "list": {"email": 2},
        "name": {"email": 1},
        "status.message": {"email": 1},
        "text": {"email": 1},
        "trace_state": {"email": 1},
    }


def test_logs_and_metrics_are_looked_at() -> None:
    logs = ExportLogsServiceRequest()
    record = logs.resource_logs.add().scope_logs.add().log_records.add(event_name=MAIL, severity_text=MAIL)
    record.body.CopyFrom(any_value({"text": MAIL}))
    set_attributes(record.attributes, to=MAIL)
    found = redacted(logs, Signal.LOGS).resource_logs[0].scope_logs[0].log_records[0]
    assert MAIL.encode() not in found.SerializeToString()
    assert "body" in found.attributes[-1].value.string_value

    metrics = ExportMetricsServiceRequest()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m", description=MAIL)
    point = metric.sum.data_points.add(as_int=1)
    set_attributes(point.attributes, user=MAIL)
    set_attributes(point.exemplars.add().filtered_attributes, user=MAIL)
    other = redacted(metrics, Signal.METRICS)
    assert MAIL.encode() not in other.SerializeToString()
    assert [one.key for one in other.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points[0].attributes] == [
        "user"  # a mark would make another series of it
    ]


@pytest.mark.parametrize("signal", list(DOCUMENTS), ids=str)
def test_a_value_that_is_split_over_strings_of_json_is_found_in_every_field(signal: Signal) -> None:
    key, rest = "AKIAUPND", "MHYIVD47PGMI"
    split = [
        json.dumps([key, rest]),
        json.dumps({"a": key, "b": rest}),
        json.dumps({"x": json.dumps({"y": [key, rest]})}),
    ]
    message, texts = full(signal)
    left, seen = [], set()
    for part, field in texts:
        place = part.DESCRIPTOR.name, field
        if place in seen or field == "key":
            continue
        seen.add(place)
        before = getattr(part, field)
        for text in split:
            setattr(part, field, text)
            if rest.encode() in request_redactor().redacted(signal, message.SerializeToString(), "default").payload:
                left.append((place, text))
        setattr(part, field, before)
    assert len(seen) >= 5
    assert left == []


def _chunk(part: str) -> str:
    return json.dumps(
        {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]}
    )


def _block(part: str) -> str:
    return json.dumps({"type": "content_block_delta", "delta": {"type": "text_delta", "text": part}})


STREAMS: dict[str, Callable[[list[str]], str]] = {
    "chunks": lambda parts: "".join(f"data: {_chunk(part)}\n\n" for part in parts) + "data: [DONE]\n\n",
    "events": lambda parts: "".join(f"event: content_block_delta\r\ndata: {_block(part)}\r\n\r\n" for part in parts),
    "short": lambda parts: "\n".join("data:" + json.dumps({"delta": part}, separators=(",", ":")) for part in parts),
    "lines": lambda parts: "\n".join(json.dumps({"response": part, "done": False}) for part in parts),
    "in json": lambda parts: json.dumps({"body": "".join(f"data: {_chunk(part)}\n\n" for part in parts)}),
}


@pytest.mark.parametrize("settings", [{}, {"places": [{"attribute": "other", "action": "keep"}]}], ids=["", "places"])
def test_a_value_that_is_split_over_the_lines_of_a_stream_is_found(settings: dict[str, Any]) -> None:
    secrets = ("AKIAUPNDMHYIVD47PGMI", "4111111111111111", "ann.lee@corp.io", "DE89370400440532013000")
    left = []
    for (name, stream), secret in itertools.product(STREAMS.items(), secrets):
        said = f"it is {secret} and so on"
        parts = [said[start : start + 4] for start in range(0, len(said), 4)]
        request = one_span(response=stream(parts), other="kept")
        payload = request_redactor(**settings).redacted(Signal.TRACES, request.SerializeToString(), "default").payload
        found = attributes_of(ExportTraceServiceRequest.FromString(payload))["response"]
        # What stands beside the value stays, and the form of the stream.
        kept = [part for part in (parts[0], parts[-1]) if json.dumps(part)[1:-1] in found]
        if any(json.dumps(part)[1:-1] in found for part in parts if part in secret) or len(kept) < 2:
            left.append((name, secret))
    assert left == []


def test_what_stands_between_the_lines_of_a_stream_is_looked_at() -> None:
    found = attributes_of(redacted(one_span(response=f': from {MAIL}\ndata: {{"a": 1}}\n\ndata: {{"b": "{MAIL}"}}\n')))
    assert found["response"] == ': from [redacted:email]\ndata: {"a": 1}\n\ndata: {"b": "[redacted:email]"}\n'


def test_what_no_field_is_for_is_taken_out_of_what_is_looked_at() -> None:
    request = one_span(a="b")
    wire = request.SerializeToString() + b"\x9a\x06" + bytes([len(MAIL)]) + MAIL.encode()
    assert request_redactor().redacted(Signal.TRACES, wire, "default").payload == request.SerializeToString()


def test_a_number_that_is_a_card_becomes_a_text() -> None:
    found = redacted(one_span(card=4111111111111111, json='{"card": 4111111111111111, "n": 12}', n=12))
    assert attributes_of(found)["card"] == "[redacted:card]"
    assert attributes_of(found)["json"] == '{"card": "[redacted:card]", "n": 12}'


@each(
    ("key", "number"),
    [("n", 4111111111111111), ("customer.phone", 491701234567), ("ssn", 219099999), ("n", 15076500565)],
)
def test_a_number_alone_is_looked_at_in_an_attribute_and_in_a_list(key: str, number: int) -> None:
    for value in (number, [7, number], {"inner": {key: number}}):
        found = redacted(one_span(a="b", **{key: value})).resource_spans[0].scope_spans[0].spans[0]
        assert "[redacted:" in str(found), value


@each(
    "text",
    [
        "４１１１１１１１１１１１１１１１",
        "an\u00adn@corp.io",
        '{"password": "hunter22", "n": [1]}',
        "\u200b".join(MAIL),
    ],
)
def test_bytes_are_looked_at_as_text(text: str) -> None:
    found = redacted(one_span(a=text.encode())).resource_spans[0].scope_spans[0].spans[0]
    assert "[redacted:" in found.attributes[0].value.string_value


def test_what_is_said_of_a_place_does_not_say_a_key_that_goes() -> None:
    request = one_span(**{f"user.{MAIL}": "x"})
    done = request_redactor(places=[{"attribute": "user.*", "action": "mask"}]).redacted(
        Signal.TRACES, request.SerializeToString(), "default"
    )
    assert MAIL.encode() not in done.payload
    assert {one.place_text for one in done.counts} == {"(key)"}


def test_equal_values_have_equal_hashes_within_a_tenant_and_no_other() -> None:
    settings = {"action": "hash", "key": KEY}
    first = attributes_of(redacted(one_span(a=MAIL, b=f"to {MAIL}, now", c="bob@corp.io"), **settings))
    assert first["b"] == f"to {first['a']}, now"
    assert first["c"] != first["a"]
    other = attributes_of(redacted(one_span(a=MAIL), tenant="acme", **settings))
    assert other["a"] != first["a"]
    assert attributes_of(redacted(one_span(a=MAIL), action="hash", key=KEY[::-1]))["a"] != first["a"]
    assert attributes_of(redacted(one_span(a=MAIL), **settings))["a"] == first["a"]


def test_ids_that_hold_something_still_differ_from_each_other() -> None:
    messages = json.dumps([{"type": "tool_call", "id": MAIL}, {"type": "tool_call", "id": "bob@corp.io"}])
    found = attributes_of(redacted(one_span(gen_ai__tool__call__id=MAIL, gen_ai__input__messages=messages)))
    first, second = (part["id"] for part in json.loads(found["gen_ai.input.messages"]))
    assert first.startswith("[hash:")
    assert found["gen_ai.tool.call.id"] == first != second


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("mask", {"a": "to [redacted:email]", "j": '{"to": "cc [redacted:email]", "n": 1}'}),
        # What is around it goes as well.
        ("drop", {"j": '{"to": "[redacted]", "n": 1}'}),
    ],
)
def test_what_is_left_of_a_value_in_which_something_was_found(action: str, expected: dict[str, str]) -> None:
    found = attributes_of(redacted(one_span(a=f"to {MAIL}", j=json.dumps({"to": f"cc {MAIL}", "n": 1})), action=action))
    del found["tracegrade.redacted"]
    assert found == expected


def test_a_detector_has_its_own_action() -> None:
    found = attributes_of(redacted(one_span(a=MAIL, b="4111 1111 1111 1111"), actions={"email": "hash"}, key=KEY))
    assert found["a"].startswith("[hash:")
    assert found["b"] == "[redacted:card]"


@pytest.mark.parametrize("detectors", ["all", ["email"], []])
def test_own_patterns_and_names_are_found_whatever_detectors_says(tmp_path: Any, detectors: object) -> None:
    names = tmp_path / "names.txt"
    names.write_text("# of our customers\nAnn Lee\n")
    settings = {"patterns": {"customer": "KD-[0-9]{6}"}, "names_file": str(names), "detectors": detectors}
    found = attributes_of(redacted(one_span(a="KD-123456 is ann lee"), **settings))
    assert found["a"] == "[redacted:customer] is [redacted:name]"


def test_a_large_request_is_redacted_in_turns() -> None:
    request = one_span(a=MAIL)
    spans = request.resource_spans[0].scope_spans[0].spans
    spans.extend([spans[0]] * 99)
    turns = request_redactor().in_turns(Signal.TRACES, request.SerializeToString(), "default")
    taken = 0
    while (found := next_turn(turns)) is None:
        taken += 1
    assert taken >= 5
    assert found == request_redactor().redacted(Signal.TRACES, request.SerializeToString(), "default")
    assert found.counts.total() == 100
