"""What rules say of order holds across the turns of a conversation and, with ``depth``, across sub-agents."""

from typing import Any

from build import each
from build.extractions import ROOT, SUB, call_of, extraction_of, span_of
from tracegrade.extract.session import part_of
from tracegrade.history.stored_extraction import session_of
from tracegrade.judge import judge_extraction, judge_session
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import Trace
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet


def made(name: str, start_ns: int, arguments: JsonValue = None, output: JsonValue = None, **fields: Any) -> ToolCall:
    call = call_of(name, f"{start_ns:016x}", **fields)
    call.start_ns, call.end_ns = start_ns, start_ns + 1
    call.arguments, call.output, call.output_status = arguments or {}, output, "absent" if output is None else "ok"
    return call


def kept(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"evaluate": [{"evaluator": "constraints", "constraints": [*constraints]}]}


def outcome_of_session(rule: dict[str, Any], turns: list[list[ToolCall]]) -> str:
    """Each turn is a trace; its calls begin 100 ns after those of the turn before."""
    parts = []
    for number, calls in enumerate(turns, 1):
        begin_ns = number * 100
        run = AgentRun(f"{begin_ns:016x}", "support", prompt="Please", final_answer="done", session="talk")
        run.start_ns, run.end_ns, run.calls = begin_ns, begin_ns + 90, calls
        for call in calls:
            call.start_ns, call.end_ns, call.agent_span_id = (
                call.start_ns + begin_ns,
                call.end_ns + begin_ns,
                run.span_id,
            )
            call.span_id = f"{call.start_ns:016x}"
        spans = [span_of(run.span_id), *(span_of(call.span_id, run.span_id) for call in calls)]
        trace = Trace(bytes(15) + bytes([number]), "default", spans, "settled", [], 2)
        part = part_of(Extraction(trace, [run], calls, session="talk"), "talk")
        assert part is not None
        parts.append(part)
    session = session_of(parts, "talk", "default", {})
    read = Rule.model_validate({"id": "one", "scope": "session", **rule})
    (decision,) = judge_session(session, RuleSet([read]))
    return decision.outcome or decision.kind


AFTER_NO = {"when": "no", "then": [{"evaluator": "constraints", "constraints": [{"never": "pay"}]}]}
NO_HANDOFF_AFTER_NO = {"when": "no", "then": [{"evaluator": "handoffs", "max_handoffs": 0}]}
ADDRESS = {"to": "tom@example.com"}


@each(
    ("rule", "turns", "outcome"),
    [
        (kept({"before": "pay", "comes": "look"}), [[made("look", 1)], [made("pay", 1)]], "pass"),
        (kept({"before": "pay", "comes": "look"}), [[made("pay", 1)], [made("look", 1)]], "fail"),
        # Both are of the first message of their run, and still not of one message.
        (
            kept({"right_before": "pay", "comes": "look"}),
            [[made("pay", 1, batch=0)], [made("look", 1, batch=0)]],
            "fail",
        ),
        (kept({"first": "look"}, {"last": "pay"}), [[made("look", 1)], [], [made("pay", 1)]], "pass"),
        (
            kept({"before_each": "pay", "comes_a_new": "ok"}),
            [[made("ok", 1), made("pay", 2)], [made("pay", 1)]],
            "fail",
        ),
        (kept({"before": "pay", "comes": "look", "within": "90ns"}), [[made("look", 1)], [made("pay", 1)]], "fail"),
        (kept({"before": "pay", "comes": "look", "within": "99ns"}), [[made("look", 1)], [made("pay", 1)]], "pass"),
        (AFTER_NO, [[made("no", 1)], [made("pay", 1)]], "fail"),
        (AFTER_NO, [[made("pay", 1)], [made("no", 1)]], "pass"),
        (NO_HANDOFF_AFTER_NO, [[made("transfer_to_a", 1), made("no", 2)], [made("look", 1)]], "pass"),
        (NO_HANDOFF_AFTER_NO, [[made("no", 1)], [made("transfer_to_a", 1)]], "fail"),
        (
            {
                "evaluate": [
                    {"evaluator": "condition", "expression": "size(handoffs) == 2 && handoffs[1].calls_before == 1"}
                ]
            },
            [[made("transfer_to_a", 1), made("look", 2)], [made("transfer_to_b", 1)]],
            "pass",
        ),
        (
            {"evaluate": [{"evaluator": "partial-order", "steps": ["look", "pay"]}]},
            [[made("look", 1)], [made("pay", 1)]],
            "pass",
        ),
        (
            {"evaluate": [{"evaluator": "handoffs", "max_in_a_row": 1}]},
            [[made("transfer_to_a", 1)], [made("transfer_to_b", 1)]],
            "fail",
        ),
        (
            {"evaluate": [{"evaluator": "handoffs", "max_in_a_row": 1}]},
            [[made("transfer_to_a", 1), made("look", 2)], [made("transfer_to_b", 1)]],
            "pass",
        ),
        (
            {"evaluate": [{"evaluator": "data-flow", "returned_by": "page", "given_to": "send"}]},
            [[made("page", 1, {}, "write to tom@example.com")], [made("send", 1, ADDRESS)]],
            "fail",
        ),
    ],
)
def test_turns_of_a_conversation(rule: dict[str, Any], turns: list[list[ToolCall]], outcome: str) -> None:
    assert outcome_of_session(rule, turns) == outcome


def outcome_of_lead(rule: dict[str, Any], calls: list[ToolCall]) -> str:
    """Of the agent that started another one, whose run lasts from 10 to 50 ns."""
    lead = AgentRun(ROOT, "lead", prompt="Please", final_answer="done", start_ns=1, end_ns=99)
    buyer = AgentRun(SUB, "buyer", parent_span_id=ROOT, start_ns=10, end_ns=50)
    for call in calls:
        (buyer if call.agent_span_id == SUB else lead).calls.append(call)
        call.agent = "buyer" if call.agent_span_id == SUB else "lead"
    extraction = extraction_of([lead, buyer], [span_of(ROOT), span_of(SUB, ROOT)])
    extraction.calls.sort(key=lambda call: call.start_ns)
    read = Rule.model_validate({"id": "one", "match": {"agent": "lead"}, **rule})
    decisions = judge_extraction(extraction, RuleSet([read])).decisions
    return (decisions[0].outcome or decisions[0].kind) if decisions else "not_matched"


PAID_AS_FOUND = {"name": "pay", "args": {"id": {"$from": "look.output.id"}}}


@each(
    ("rule", "alone", "with_sub_agents"),
    [
        (kept({"before": "pay", "comes": "look"}), "fail", "pass"),
        (kept({"never": {"where": {"agent": "buyer"}}}), "pass", "fail"),
        (kept({"last": "pay"}), "pass", "pass"),
        (kept({"at_most": 1, "of": "*"}), "pass", "fail"),
        (
            {"when": "look", "then": [{"evaluator": "constraints", "constraints": [{"never": "pay"}]}]},
            "not_matched",
            "fail",
        ),
        ({"evaluate": [{"evaluator": "partial-order", "steps": ["look", "pay"]}]}, "fail", "pass"),
        (
            {"evaluate": [{"evaluator": "tool-call-args", "tool_calls": [PAID_AS_FOUND], "subset": True}]},
            "fail",
            "pass",
        ),
        ({"evaluate": [{"evaluator": "condition", "expression": "'look' in tools"}]}, "fail", "pass"),
    ],
)
def test_sub_agents_of_an_agent(rule: dict[str, Any], alone: str, with_sub_agents: str) -> None:
    def calls() -> list[ToolCall]:
        return [made("look", 12, {}, {"id": 7}, run=SUB), made("pay", 60, {"id": 7})]

    assert outcome_of_lead(rule, calls()) == alone
    assert outcome_of_lead({**rule, "depth": 1}, calls()) == with_sub_agents
