import json

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tracegrade.deliver.carriers import carriers
from tracegrade.deliver.events import events
from tracegrade.model.evaluation import Pairing

FAIL = {"outcome": "fail", "score": 0.5, "evaluation": "args", "explanation": "create_order.user_id differs"}
ERROR = {
    "outcome": "error",
    "score": None,
    "evaluation": "broken",
    "reason": "KeyError: '4111 1111'",
    "explanation": "KeyError: '4111 1111'",
}
NOT_EVALUABLE = {
    "outcome": "not_evaluable",
    "score": None,
    "evaluation": "output",
    "reason": "output of create_order is absent",
    "explanation": "output of create_order is absent",
}


def plain(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    return getattr(value, kind)


def read(record, include_values=False):
    """The record's carriers, each with its attributes as a dict."""
    spans = [Span.FromString(encoded) for encoded in carriers(record, include_values)]
    return [(span, {item.key: plain(item.value) for item in span.attributes}) for span in spans]


def test_a_carrier_is_a_child_of_the_subjects_span_with_one_link_to_it(judged):
    [(span, attributes)] = read(judged({}))
    assert span.name == "evaluation checkout-order"
    assert span.kind == Span.SPAN_KIND_INTERNAL
    assert span.trace_id.hex() == "5b8e9d3c17a0f2e15b8e9d3c17a0f2e1"
    assert span.parent_span_id.hex() == "00f067aa0ba902b7"
    [link] = span.links
    assert (link.trace_id.hex(), link.span_id.hex()) == ("5b8e9d3c17a0f2e15b8e9d3c17a0f2e1", "00f067aa0ba902b7")
    assert span.start_time_unix_nano == span.end_time_unix_nano == 1_700_000_000_000_000_009
    assert len(span.span_id) == 8
    assert any(span.span_id)
    assert span.status.code == Status.STATUS_CODE_UNSET
    metadata = json.loads(attributes.pop("evaluations.0.evaluation.metadata"))
    [evaluation_id] = attributes.pop("tracegrade.evaluation.ids")
    assert metadata == {
        "id": evaluation_id,
        "evaluator": "tool-call-order",
        "threshold": 0.9,
        "rule_hash": "0123456789abcdef",
        "revision": 3,
    }
    assert attributes == {
        "gen_ai.operation.name": "evaluation",
        "openinference.span.kind": "EVALUATOR",
        "gen_ai.agent.name": "support",
        "tracegrade.rule.id": "checkout-order",
        "tracegrade.rule.hash": "0123456789abcdef",
        "tracegrade.rule.level": "high",
        "tracegrade.subject.kind": "agent",
        "tracegrade.subject.id": "00f067aa0ba902b7",
        "tracegrade.run": "live",
        "tracegrade.outcome": "pass",
        "tracegrade.revision": 3,
        "tracegrade.complete": True,
        "tracegrade.close_reason": "settled",
        "evaluations.0.evaluation.name": "checkout-order/tool-call-order",
        "evaluations.0.evaluation.score": 1.0,
        "evaluations.0.evaluation.label": "pass",
        "evaluations.0.evaluation.explanation": "all 3 calls in order",
        "evaluations.0.evaluation.annotator_kind": "CODE",
        "evaluations.0.evaluation.identifier": "checkout-order/tool-call-order",
    }


def test_there_is_one_carrier_for_each_subject_and_rule_with_all_of_its_evaluations(judged):
    other_subject = {"subject": {"kind": "tool-call", "id": "aa"}, "span_id": "00000000000000aa"}
    other_rule = {"rule_id": "other"}
    found = read(judged({}, other_subject, FAIL, other_rule))
    assert [(span.name, attributes["tracegrade.subject.id"]) for span, attributes in found] == [
        ("evaluation checkout-order", "00f067aa0ba902b7"),
        ("evaluation checkout-order", "aa"),
        ("evaluation other", "00f067aa0ba902b7"),
    ]
    _, first = found[0]
    assert [first[f"evaluations.{index}.evaluation.name"] for index in (0, 1)] == [
        "checkout-order/tool-call-order",
        "checkout-order/args",
    ]
    assert len({span.span_id for span, _ in found}) == 3


def test_the_outcome_is_fail_if_any_fails_else_error_else_not_evaluable_else_pass(judged):
    def outcome(*evaluations):
        [(_, attributes)] = read(judged(*evaluations))
        return attributes["tracegrade.outcome"]

    assert outcome({}, NOT_EVALUABLE, ERROR, FAIL) == "fail"
    assert outcome({}, NOT_EVALUABLE, ERROR) == "error"
    assert outcome({}, NOT_EVALUABLE) == "not_evaluable"
    assert outcome({}) == "pass"


def test_what_was_not_judged_has_a_label_and_no_score(judged):
    [(_, attributes)] = read(judged(NOT_EVALUABLE))
    assert attributes["evaluations.0.evaluation.label"] == "not_evaluable"
    assert attributes["evaluations.0.evaluation.explanation"] == "output of create_order is absent"
    assert "evaluations.0.evaluation.score" not in attributes


def test_an_error_marks_the_span_and_shows_its_type_but_no_values(judged):
    record = judged(ERROR)
    [(span, attributes)] = read(record)
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert attributes["error.type"] == "KeyError"
    assert b"4111" not in span.SerializeToString()
    [(_, attributes)] = read(record, include_values=True)
    assert attributes["evaluations.0.evaluation.explanation"] == "KeyError: '4111 1111'"


def test_values_are_sent_only_when_asked_for(judged):
    record = judged({})
    [(span, _)] = read(record)
    assert b"4111" not in span.SerializeToString()
    [(_, attributes)] = read(record, include_values=True)
    metadata = json.loads(attributes["evaluations.0.evaluation.metadata"])
    assert json.loads(metadata["details"]) == {"found": ["4111 1111"]}


def test_huge_details_are_left_out_and_said_to_be(judged):
    [(span, attributes)] = read(judged({"details": {"found": "x" * 5_000_000}}), include_values=True)
    assert span.ByteSize() < 10_000
    assert "omitted" in attributes["evaluations.0.evaluation.metadata"]


def test_a_wider_scope_has_its_prefix(judged):
    subject = {"kind": "trace", "id": "5b8e9d3c17a0f2e15b8e9d3c17a0f2e1"}
    [(_, attributes)] = read(judged({"subject": subject}))
    assert attributes["trace.evaluations.0.evaluation.label"] == "pass"
    assert not any(key.startswith("evaluations.") for key in attributes)


def test_a_session_has_a_trace_of_its_own_and_links_to_the_last_traces_root(judged):
    subject = {"subject": {"kind": "session", "id": "chat-1"}, "session": "chat-1"}
    [(span, attributes)] = read(judged(subject))
    [(again, _)] = read(judged(subject, revision=4))
    assert len(span.trace_id) == 16
    assert span.trace_id == again.trace_id
    assert span.trace_id.hex() != "5b8e9d3c17a0f2e15b8e9d3c17a0f2e1"
    assert span.parent_span_id == b""
    assert span.links[0].trace_id.hex() == "5b8e9d3c17a0f2e15b8e9d3c17a0f2e1"
    assert attributes["session.id"] == "chat-1"
    assert attributes["session.evaluations.0.evaluation.label"] == "pass"


def test_a_trace_without_its_root_is_linked_to_and_gets_no_child(judged):
    incomplete = {"complete": False, "missing": ["root", "parent:00000000000000bb"], "close_reason": "idle"}
    [(span, attributes)] = read(judged(incomplete))
    assert span.parent_span_id == b""
    assert span.links[0].span_id.hex() == "00f067aa0ba902b7"
    assert attributes["tracegrade.complete"] is False
    assert attributes["tracegrade.missing"] == ["root", "parent:00000000000000bb"]
    assert attributes["tracegrade.close_reason"] == "idle"


def test_thousands_of_missing_parents_are_named_in_part(judged):
    missing = [f"parent:{number:016x}" for number in range(5000)]
    [(_, attributes)] = read(judged({"missing": missing, "complete": False}))
    assert attributes["tracegrade.missing"] == [*missing[:20], "and 4980 more"]


def test_a_higher_revision_says_which_one_it_replaces_and_is_another_span(judged):
    [(first, attributes)] = read(judged({}, revision=3))
    assert "tracegrade.replaces" not in attributes
    [(second, attributes)] = read(judged({}, revision=5, supersedes=3))
    assert (attributes["tracegrade.revision"], attributes["tracegrade.replaces"]) == (5, 3)
    assert first.span_id != second.span_id
    # Backends that file by identifier replace the earlier result.
    assert attributes["evaluations.0.evaluation.identifier"] == "checkout-order/tool-call-order"


def test_cases_of_one_evaluation_have_identifiers_of_their_own(judged):
    [(_, attributes)] = read(judged({"case": "paris"}, {"case": "rome"}))
    assert [attributes[f"evaluations.{index}.evaluation.identifier"] for index in (0, 1)] == [
        "checkout-order/tool-call-order/paris",
        "checkout-order/tool-call-order/rome",
    ]
    assert json.loads(attributes["evaluations.1.evaluation.metadata"])["case"] == "rome"


def test_the_same_record_gives_the_same_bytes(judged):
    changes = ({}, FAIL, ERROR, NOT_EVALUABLE)
    assert carriers(judged(*changes), True) == carriers(judged(*changes), True)


def test_which_calls_were_paired_is_not_sent(judged):
    record, paired = judged({}), judged({})
    for evaluation in paired.decisions[0].evaluations:
        evaluation.pairs = Pairing([0, None]).pairs
        assert {"pairs", "pairing"}.isdisjoint(evaluation.to_json())
    assert carriers(paired, True) == carriers(record, True)
    assert events(paired, True) == events(record, True)


def test_a_case_that_looks_like_the_mark_of_an_id_stays_what_it_is(judged):
    record = judged({"case": "?" * 32})
    [(_, attributes)] = read(record)
    metadata = json.loads(attributes["evaluations.0.evaluation.metadata"])
    assert (metadata["case"], metadata["id"]) == ("?" * 32, record.evaluations[0].id)


def test_what_is_kept_of_one_trace_is_not_said_of_another(judged):
    [(first, said_first)] = read(judged({"explanation": "a"}))
    other = {"explanation": "b", "subject": {"kind": "agent", "id": "bb"}, "span_id": "00000000000000bb", "time": 7}
    [(second, said_second)] = read(judged(other))
    assert (first.parent_span_id.hex(), second.parent_span_id.hex()) == ("00f067aa0ba902b7", "00000000000000bb")
    assert (second.links[0].span_id.hex(), second.start_time_unix_nano) == ("00000000000000bb", 7)
    differing = {key for key in said_first if said_first[key] != said_second[key]}
    assert differing == {
        "tracegrade.subject.id",
        "tracegrade.evaluation.ids",
        "evaluations.0.evaluation.explanation",
        "evaluations.0.evaluation.metadata",
    }


def test_results_of_tenants_say_whose_they_are_and_those_of_the_usual_one_need_not(judged):
    for tenant, said in (("acme", "acme"), ("default", None)):
        [(_, attributes)] = read(judged({}, tenant=tenant))
        assert attributes.get("tracegrade.tenant") == said
