"""``when`` and ``then``: what is judged of the calls after one, and what becomes of what cannot be read."""

from typing import Any

import pytest

from build import each
from build.extractions import ROOT, call_of, extraction_of, span_of
from tracegrade.judge import judge_extraction
from tracegrade.match.select import explain
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction, UnreadWork
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

REFUSED = {"tool": "lookup_policy", "where": {"output": {"status": "refused"}}}
NO_REFUND = [{"evaluator": "constraints", "constraints": [{"never": "refund"}]}]


def policy(status: str | None, **fields: Any) -> ToolCall:
    call = made("lookup_policy", **fields)
    call.output, call.output_status = ({"status": status}, "ok") if status else (None, "absent")
    return call


def made(name: str, start_ns: int = 1, batch: int | None = None, **arguments: Any) -> ToolCall:
    call = call_of(name, f"{start_ns:016x}", batch=batch)
    call.start_ns, call.end_ns, call.arguments = start_ns, start_ns + 1, arguments
    return call


def trace_of(*calls: ToolCall) -> Extraction:
    run = AgentRun(ROOT, "support", prompt="Refund me", final_answer="done")
    run.calls = list(calls)
    return extraction_of([run])


def with_a_nameless_call(extraction: Extraction, start_ns: int) -> Extraction:
    """`extraction` with a span that is a tool call and does not say of which tool."""
    nameless = span_of(f"{start_ns:016x}", ROOT)
    nameless.start_ns, nameless.unread_keys = start_ns, None
    nameless.attributes["gen_ai.operation.name"] = "execute_tool"
    extraction.trace.spans.append(nameless)
    extraction.unread.append(UnreadWork(nameless.span_id.hex(), start_ns, "tool span without a name", "agents"))
    return extraction


def outcome(rule: Rule, extraction: Extraction) -> str:
    decisions = judge_extraction(extraction, RuleSet([rule])).decisions
    explained = [found.clause for found in explain(rule, extraction)]
    if not decisions:
        assert explained == ["when"]
        return "not_matched"
    assert explained == [None]
    (decision,) = decisions
    return decision.outcome or decision.kind


def rule_of(**fields: Any) -> Rule:
    return Rule.model_validate({"id": "one", "when": REFUSED, "then": NO_REFUND, **fields})


@each(
    ("calls", "expected"),
    [
        ([], "not_matched"),
        ([made("refund", 1)], "not_matched"),
        ([policy("granted", start_ns=1), made("refund", 2)], "not_matched"),
        ([policy("refused", start_ns=1)], "pass"),
        ([made("refund", 1), policy("refused", start_ns=2)], "pass"),
        ([policy("refused", start_ns=1), made("refund", 2)], "fail"),
        ([policy("refused", start_ns=1), policy("granted", start_ns=2), made("refund", 3)], "fail"),
        # Asked for by one message: the refund did not follow the refusal.
        ([policy("refused", start_ns=1, batch=1), made("refund", 2, batch=1)], "pass"),
        # Whether the policy said no cannot be read.
        ([policy(None, start_ns=1), made("refund", 2)], "not_evaluable"),
        ([policy(None, start_ns=1), made("refund", 2), policy("refused", start_ns=3)], "not_evaluable"),
        ([policy(None, start_ns=1), policy("refused", start_ns=2), made("refund", 3)], "fail"),
        ([policy("refused", start_ns=1), policy(None, start_ns=2), made("refund", 3)], "fail"),
    ],
)
def test_what_follows_is_judged_by_itself(calls: list[ToolCall], expected: str) -> None:
    assert outcome(rule_of(), trace_of(*calls)) == expected


def test_a_value_may_still_come_from_a_call_before() -> None:
    """Only the refund follows; the order that it names was looked up before."""
    expected = {"name": "refund", "args": {"id": {"$from": "find.output.id"}}}
    same = [{"evaluator": "tool-call-args", "tool_calls": [expected]}]
    found = made("find", 1)
    found.output, found.output_status = {"id": 7}, "ok"
    rule = rule_of(then=same)
    assert outcome(rule, trace_of(found, policy("refused", start_ns=2), made("refund", 3, id=7))) == "pass"
    assert outcome(rule, trace_of(found, policy("refused", start_ns=2), made("refund", 3, id=8))) == "fail"


def test_evaluate_is_judged_of_all_calls_beside_then() -> None:
    rule = rule_of(
        evaluate=[{"evaluator": "condition", "name": "all", "expression": "size(calls) == 2"}],
        then=[{"evaluator": "condition", "name": "after", "expression": "size(calls) == 1 && tools == ['refund']"}],
    )
    extraction = trace_of(policy("refused", start_ns=1), made("refund", 2))
    (decision,) = judge_extraction(extraction, RuleSet([rule])).decisions
    assert [(item.evaluation, item.outcome) for item in decision.evaluations] == [("all", "pass"), ("after", "pass")]


def test_what_cannot_be_read_is_named() -> None:
    extraction = trace_of(policy(None, start_ns=1), made("refund", 2))
    (decision,) = judge_extraction(extraction, RuleSet([rule_of()])).decisions
    assert decision.reason == "the output of a call was not recorded (lookup_policy, span 0000000000000001)"
    assert [item.evaluation for item in decision.evaluations] == ["constraints"]


def test_a_value_that_may_come_from_a_call_that_cannot_be_read_leaves_it_unknown_whether_a_call_is_meant() -> None:
    """A span is a tool call, and does not say of which tool: it may have been the search that found the order."""
    found_order = {"tool": "open_order", "where": {"args": {"id": {"$from": "search.output.id"}}}}
    rule = rule_of(when=found_order)
    opened = [made("open_order", 5, id=7), made("refund", 9)]
    assert outcome(rule, trace_of(*opened)) == "not_matched"
    extraction = with_a_nameless_call(trace_of(*opened), start_ns=2)
    assert outcome(rule, extraction) == "not_evaluable"
    (decision,) = judge_extraction(extraction, RuleSet([rule])).decisions
    assert "the tool of a call cannot be read (span 0000000000000002" in decision.reason


@pytest.mark.parametrize(
    "then",
    [{"evaluator": "handoffs", "max_handoffs": 0}, {"evaluator": "condition", "expression": "handoffs.size() == 0"}],
)
def test_of_handoffs_those_that_follow_are_judged(then: dict[str, Any]) -> None:
    rule = rule_of(then=[then])
    assert outcome(rule, trace_of(made("transfer_to_sales", 1), policy("refused", start_ns=2))) == "pass"
    assert outcome(rule, trace_of(policy("refused", start_ns=1), made("transfer_to_sales", 2))) == "fail"
    # Asked for by one message: the task was not passed on because of the refusal.
    together = [policy("refused", start_ns=1, batch=1), made("transfer_to_sales", 2, batch=1)]
    assert outcome(rule, trace_of(*together)) == "pass"
    # Seen in runs alone: one agent's run lies in that of another one, and began before the refusal, or after it.
    for start_ns, expected in ((1, "pass"), (3, "fail")):
        extraction = trace_of(policy("refused", start_ns=2))
        sub = AgentRun("bb" * 8, "sales", parent_span_id=ROOT, start_ns=start_ns, end_ns=9)
        whole = extraction_of([*extraction.runs, sub], [span_of(ROOT), span_of("bb" * 8, ROOT)])
        found = judge_extraction(whole, RuleSet([rule])).decisions
        assert [decision.outcome for decision in found if decision.evaluations] == [expected]


@each(
    ("calls", "known", "start_ns", "expected"),
    [
        # It may have been the policy that said no.
        ([made("refund", 5)], "not_matched", 7, "not_evaluable"),
        ([policy("granted", start_ns=2), made("refund", 5)], "not_matched", 1, "not_evaluable"),
        # Had it been that, the refund before the refusal that is known would have followed it.
        ([made("refund", 5), policy("refused", start_ns=9)], "pass", 1, "not_evaluable"),
        ([made("refund", 5), made("look", 6), policy("refused", start_ns=9)], "pass", 6, "not_evaluable"),
        # It may have been a refund.
        ([policy("refused", start_ns=1)], "pass", 7, "not_evaluable"),
        # Whatever it was, a refund followed the refusal.
        ([policy("refused", start_ns=1), made("refund", 5)], "fail", 7, "fail"),
        ([policy("refused", start_ns=3), made("refund", 5)], "fail", 1, "fail"),
    ],
)
def test_a_call_of_which_the_tool_is_not_known_may_be_any(
    calls: list[ToolCall], known: str, start_ns: int, expected: str
) -> None:
    assert outcome(rule_of(), trace_of(*calls)) == known
    assert outcome(rule_of(), with_a_nameless_call(trace_of(*calls), start_ns)) == expected
