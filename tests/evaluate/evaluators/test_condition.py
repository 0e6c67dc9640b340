"""What a condition says of calls, and what it says it read."""

from typing import Any

import pytest

from build import call, each
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.registry import EVALUATORS

CONDITION = EVALUATORS["condition"]


def judged(source: str, calls: list[Any], **evidence: Any) -> Any:
    criteria = CONDITION.read_criteria({"expression": source})
    return CONDITION.evaluate(Evidence(calls, **evidence), criteria, CONDITION.Settings())


@each(
    ("source", "holds"),
    [
        ("size(calls) == 2", True),
        ("calls.all(c, c.arguments.amount <= 500)", False),
        ("calls.exists(c, c.name == 'refund' && c.arguments.amount == 700)", True),
        ("calls[0].output.status == 'refused' && !calls[1].failed", True),
        ("calls[1].duration_ms == 3.0 && calls[1].start_ms == 5.0", True),
        ("calls[0].attempt == 1 && calls[0].agent == '' && calls[0].error == ''", True),
        ("answer.contains(string(calls[1].arguments.amount))", True),
        ("answer.contains('EUR') || tools == ['refund']", False),
        ("has(calls[1].output)", False),
        ("prompt.startsWith('Please')", True),
    ],
)
def test_what_is_true_of_the_calls_passes(source: str, holds: bool) -> None:
    calls = [
        call("lookup_policy", {"amount": 1}, output={"status": "refused"}, start_ns=1_000_000, end_ns=2_000_000),
        call("refund", {"amount": 700}, start_ns=6_000_000, end_ns=9_000_000),
    ]
    assert judged(source, calls, prompt="Please pay", final_answer="You get 700.").score == float(holds)


@each(
    ("source", "holds"),
    [
        ("size(handoffs) == 2", True),
        ("handoffs[0].to == 'billing' && handoffs[0].from == ''", True),
        ("handoffs[0].seen_in == 'calls' && handoffs[0].start_ms == 5.0 && handoffs[1].calls_before == 1", True),
        ("handoffs.exists(h, has(h.to) && h.to == 'sales')", False),
        ("handoffs.all(h, h.to == 'billing')", None),
        ("handoffs.exists(h, h.to == 'billing')", True),
    ],
)
def test_handoffs_can_be_read_as_calls_can(source: str, holds: bool | None) -> None:
    calls = [
        call("lookup", {}, start_ns=1_000_000),
        call("transfer_to_billing", {}, start_ns=6_000_000),
        call("handoff", {}, start_ns=7_000_000, span_id="0f" * 8),
    ]
    found = judged(source, calls)
    assert found.score == (None if holds is None else float(holds))
    if holds is None:
        assert found.explanation == f"a handoff does not say to which agent (span {'0f' * 8})"


def test_it_shows_the_values_that_it_read_and_names_only_their_paths() -> None:
    calls = [call("a", {"to": "x"}, output=[1, 2]), call("refund", {"amount": 700, "to": "y" * 900})]
    found = judged(
        "calls.filter(c, c.name == 'refund').all(r, r.arguments.amount < 500 || r.arguments.to == 'x')", calls
    )
    read = found.details["read"]
    assert read["calls[0].name"] == "a"
    assert read["calls[1].arguments.amount"] == 700
    assert "calls[0].arguments.amount" not in read  # it has none
    assert len(read["calls[1].arguments.to"]) < 300
    assert "700" not in found.explanation
    assert "calls[1].name" in found.explanation


@each(
    ("source", "why"),
    [
        ("calls.all(c, c.arguments.amount < 5)", "the arguments of a call were cut off by the sender (refund, span "),
        ("calls[1].output.status == 'ok'", "the output of a call was not recorded (refund, span "),
        ("calls[1].arguments.of == 'x'", "there is no of"),
        ("calls[1].arguments.amount == 1 && prompt == 'x'", "the prompt cannot be read"),
        ("calls[1].duration_ms < 5.0", "there is no duration_ms"),
        ("answer == 'x'", "the final answer cannot be read"),
        ("service == 'shop'", "service is not known here"),
        ("tokens < 5", "no tokens were recorded"),
    ],
)
def test_what_was_not_recorded_leaves_it_open(source: str, why: str) -> None:
    calls = [call("refund", "{'amo", arguments_status="truncated"), call("refund", {"amount": 1})]
    found = judged(source, calls)
    assert found.score is None
    assert found.explanation.startswith(why)


def test_the_call_that_the_expression_is_about_is_named() -> None:
    calls = [call(name, None, arguments_status="absent") for name in ("find", "refund")]
    found = judged("calls.all(c, c.name != 'refund' || c.arguments.amount < 5)", calls)
    assert found.explanation.startswith("the arguments of a call were not recorded (refund, span ")


def test_what_decides_before_anything_unreadable_is_read_decides() -> None:
    calls = [call("refund", {"amount": 700}), call("refund", "{'amo", arguments_status="truncated")]
    assert judged("calls.all(c, c.arguments.amount < 5)", calls).score == 0.0


def test_the_work_of_loops_inside_each_other_is_bounded_and_the_bound_named() -> None:
    calls = [call("a", {"items": list(range(1500))})]
    source = "calls.all(c, c.arguments.items.all(i, c.arguments.items.exists(j, j > i)))"
    with pytest.raises(EvaluatorError, match=r"3 loops over 1500 items .* more than 1000000 turns"):
        judged(source, calls)
    assert judged("calls.all(a, calls.exists(b, a.name == b.name))", calls * 900).score == 1.0


@each(
    ("source", "why"),
    [
        ("calls.all(c, c.amount < 5)", "no member 'amount' of a call"),
        ("size(calls)", "expected true or false, found a whole number"),
        ("calls.all(", "no CEL expression"),
        ("a" * 5000, "at most 4096 characters"),
    ],
)
def test_an_expression_that_cannot_be_judged_is_refused(source: str, why: str) -> None:
    with pytest.raises(EvaluatorError, match=why):
        CONDITION.read_criteria({"expression": source})


@each(
    ("source", "calls", "why"),
    [
        # A value is copied whenever it is named.
        ("calls.all(a, calls.all(b, a.output == b.output))", 300, "loops over so large values are more work"),
        ("answer" + " + answer" * 400 + " != ''", 1, "texts joined so often are more work"),
        ("calls.all(c, !c.output.k.all(t, t.matches('[ab]{500}c')))", 300, "patterns are more work"),
        ("calls.all(c, c.name.matches(c.agent))", 300, "patterns are more work"),
    ],
)
def test_work_over_large_values_is_bounded(source: str, calls: int, why: str) -> None:
    criteria = CONDITION.read_criteria({"expression": source})
    made = [call("a", {}, output={"k": ["ab" * 10] * 300})] * calls
    with pytest.raises(EvaluatorError, match=why):
        CONDITION.evaluate(Evidence(made, "Hello", "z" * 20_000), criteria, CONDITION.read_settings({}))


@each(
    ("source", "calls"),
    [
        ("calls.all(a, calls.all(b, a.output.id <= b.output.id))", 300),
        ("calls.all(a, a.output.k.all(t, t != 'b'))", 300),
        ("(answer + '!').contains('z!')", 300),
        ("calls.all(c, !c.output.note.matches('(?i)refund|charge ?back'))", 300),
        ("answer.matches('\\\\w+')", 1),
    ],
)
def test_everyday_expressions_are_far_from_the_bound(source: str, calls: int) -> None:
    criteria = CONDITION.read_criteria({"expression": source})
    made = [call("a", {}, output={"k": ["a"], "id": 7, "note": "All is well. " * 20})] * calls
    found = CONDITION.evaluate(Evidence(made, "Hello", "z" * 20_000), criteria, CONDITION.read_settings({}))
    assert found.score == 1.0
