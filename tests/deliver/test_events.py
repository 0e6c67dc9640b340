import json

import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tracegrade.deliver.carriers import carriers
from tracegrade.deliver.events import events


def read(record, include_values=False):
    """The record's events, each with its attributes as a dict."""
    logs = [LogRecord.FromString(encoded) for encoded in events(record, include_values)]
    return [
        (log, {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in log.attributes})
        for log in logs
    ]


def test_an_event_is_attached_to_its_subject_and_has_the_conventions_attributes_and_ours(judged):
    record = judged({"outcome": "fail", "score": 0.25, "session": "chat-1"}, supersedes=2)
    [(log, attributes)] = read(record)
    assert (log.event_name, log.severity_text, log.severity_number) == ("gen_ai.evaluation.result", "WARN", 13)
    assert (log.trace_id.hex(), log.span_id.hex()) == ("5b8e9d3c17a0f2e15b8e9d3c17a0f2e1", "00f067aa0ba902b7")
    assert log.flags == 1
    assert log.time_unix_nano == log.observed_time_unix_nano == 1_700_000_000_000_000_009
    assert not log.HasField("body")
    assert attributes == {
        "event.name": "gen_ai.evaluation.result",
        "gen_ai.evaluation.name": "checkout-order/tool-call-order",
        "gen_ai.evaluation.score.value": 0.25,
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": "all 3 calls in order",
        "gen_ai.agent.name": "support",
        "gen_ai.conversation.id": "chat-1",
        "tracegrade.evaluation.id": record.evaluations[0].id,
        "tracegrade.evaluator": "tool-call-order",
        "tracegrade.outcome": "fail",
        "tracegrade.threshold": 0.9,
        "tracegrade.rule.id": "checkout-order",
        "tracegrade.rule.hash": "0123456789abcdef",
        "tracegrade.rule.level": "high",
        "tracegrade.subject.kind": "agent",
        "tracegrade.subject.id": "00f067aa0ba902b7",
        "tracegrade.run": "live",
        "tracegrade.revision": 3,
        "tracegrade.replaces": 2,
        "tracegrade.complete": True,
        "tracegrade.close_reason": "settled",
    }


@pytest.mark.parametrize(
    ("outcome", "severity"), [("pass", "INFO"), ("fail", "WARN"), ("not_evaluable", "INFO"), ("error", "ERROR")]
)
def test_the_severity_follows_the_outcome(judged, outcome, severity):
    [(log, attributes)] = read(judged({"outcome": outcome}))
    assert log.severity_text == severity
    assert attributes["gen_ai.evaluation.score.label"] == outcome


@pytest.mark.parametrize(
    ("reason", "error_type"),
    [
        ("invalid_criteria: expected a list", "invalid_criteria"),
        ("hung", "hung"),
        ("json.JSONDecodeError: x", "json.JSONDecodeError"),
        ("something unforeseen", "_OTHER"),
        ("", "_OTHER"),
    ],
)
def test_an_error_has_its_type_and_no_score(judged, reason, error_type):
    [(_, attributes)] = read(judged({"outcome": "error", "score": None, "reason": reason, "explanation": reason}))
    assert attributes["error.type"] == error_type
    assert attributes["gen_ai.evaluation.explanation"] == f"the evaluator failed: {error_type}"
    assert "gen_ai.evaluation.score.value" not in attributes


def test_a_score_of_zero_is_a_score_and_always_a_double(judged):
    [(_, attributes)] = read(judged({"outcome": "fail", "score": 0, "threshold": 1}))
    assert attributes["gen_ai.evaluation.score.value"] == 0.0
    assert isinstance(attributes["gen_ai.evaluation.score.value"], float)
    assert isinstance(attributes["tracegrade.threshold"], float)


def test_values_are_sent_only_when_asked_for(judged):
    record = judged({"case": "paris"})
    [(log, attributes)] = read(record)
    assert b"4111" not in log.SerializeToString()
    assert attributes["tracegrade.case"] == "paris"
    [(_, attributes)] = read(record, include_values=True)
    assert json.loads(attributes["tracegrade.details"]) == {"found": ["4111 1111"]}


def test_details_beyond_64_bits_and_lone_surrogates_are_written(judged):
    details = {"number": 10**30, "text": "\ud800"}
    [(_, attributes)] = read(judged({"details": details, "agent": "a\ud800"}), include_values=True)
    assert json.loads(attributes["tracegrade.details"]) == details
    assert attributes["gen_ai.agent.name"] == "a?"


def test_the_time_is_the_carriers_for_all_evaluations_of_one_rule(judged):
    record = judged({"time": 9}, {"evaluation": "args", "time": 9})
    [carrier] = carriers(record, False)
    assert [log.time_unix_nano for log, _ in read(record)] == [9, 9]
    assert Span.FromString(carrier).end_time_unix_nano == 9


@pytest.mark.parametrize("include_values", [False, True])
def test_every_result_tells_its_own_subject_and_explanation_whatever_stands_before_it(judged, include_values):
    subjects = ["00000000000000aa", "00000000000000bb", "00000000000000aa"]
    told = ["as always", "x" * 201, "another one"]
    changes = [
        {"rule_id": f"rule-{n}", "subject": {"kind": "agent", "id": subject}, "span_id": subject, "explanation": text}
        for n, (subject, text) in enumerate(zip(subjects, told, strict=True))
    ]
    changes[2] |= {"outcome": "fail"}
    record = judged(*changes)
    logs = read(record, include_values)
    assert [log.span_id.hex() for log, _ in logs] == subjects
    assert [attributes["tracegrade.subject.id"] for _, attributes in logs] == subjects
    assert [attributes["gen_ai.evaluation.explanation"] for _, attributes in logs] == told
    spans = [Span.FromString(encoded) for encoded in carriers(record, include_values)]
    assert [span.parent_span_id.hex() for span in spans] == subjects
    said = [item for span in spans for item in span.attributes if item.key.endswith(".evaluation.explanation")]
    assert [item.value.string_value for item in said] == told


def test_results_of_tenants_say_whose_they_are_and_those_of_the_usual_one_need_not(judged):
    for tenant, said in (("acme", "acme"), ("default", None)):
        [(_, attributes)] = read(judged({}, tenant=tenant))
        assert attributes.get("tracegrade.tenant") == said
