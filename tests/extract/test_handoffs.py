import json
from typing import Any

from build import each, span_id, trace
from tracegrade.extract.extract import extract
from tracegrade.extract.session import part_of
from tracegrade.extract.trace_context import ExtractionContext, SessionContext, SubjectContext
from tracegrade.match.select import subjects_of
from tracegrade.model.handoff import Handoff, handoffs_among, passed_on_to
from tracegrade.model.session import Session
from tracegrade.model.tool_call import ToolCall


def agent(number: int, name: str, at: list[int], parent: int = 0, **more: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return {"id": number, "parent": parent, "at": at, "attributes": attributes | more}


def tool(number: int, name: str, at: list[int], parent: int, arguments: str = "{}") -> dict[str, Any]:
    names = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.arguments": arguments}
    return {"id": number, "parent": parent, "at": at, "attributes": names}


def found(*spans: dict[str, Any]) -> list[Handoff]:
    return [*ExtractionContext(extract(trace(list(spans)))).handoffs(None)]


def short(handoffs: Any) -> list[tuple[str, str, str]]:
    return [(each.from_agent, each.to_agent, each.seen_in) for each in handoffs]


def test_a_call_and_the_run_that_follows_it_are_one_handoff() -> None:
    handoffs = found(
        agent(1, "triage", [0, 100]),
        tool(2, "transfer_to_billing", [50, 51], 1),
        agent(3, "billing", [110, 200]),
        agent(4, "support", [210, 300]),
    )
    assert short(handoffs) == [("triage", "billing", "calls"), ("billing", "support", "runs")]
    assert [each.span_id for each in handoffs] == [span_id(2), span_id(4)]
    assert [each.agent_span_id for each in handoffs] == [span_id(1), span_id(3)]


# One handoff as each instrumentation of OpenAI's Agents SDK writes it.
_SPANS: dict[str, dict[str, Any]] = {
    "openinference": {
        "name": "handoff to billing",
        "attributes": {"openinference.span.kind": "TOOL", "input.value": "triage", "output.value": "billing"},
    },
    "openinference for JavaScript": {
        "name": "handoff to billing",
        "attributes": {
            "openinference.span.kind": "TOOL",
            "tool.name": "handoff_to_billing",
            "input.value": '{"from_agent": "triage"}',
            "output.value": '{"to_agent": "billing"}',
        },
    },
    "openinference without values": {
        "name": "handoff to billing",
        "attributes": {"openinference.span.kind": "TOOL"},
    },
    "mlflow": {
        "name": "Handoff",
        "attributes": {
            "mlflow.spanType": '"CHAIN"',
            "mlflow.spanInputs": '{"from_agent": "triage"}',
            "mlflow.spanOutputs": '{"to_agent": "billing"}',
        },
    },
    "laminar": {
        "name": "agents.handoff",
        "attributes": {
            "lmnr.span.type": "TOOL",
            "openai.agents.handoff.from": "triage",
            "openai.agents.handoff.to": "billing",
        },
    },
    "openllmetry": {
        "name": "triage → billing.handoff",
        "attributes": {
            "traceloop.span.kind": "handoff",
            "gen_ai.handoff.from_agent": "triage",
            "gen_ai.handoff.to_agent": "billing",
        },
    },
    "opentelemetry": {
        "name": "handoff",
        "attributes": {
            "gen_ai.operation.name": "handoff",
            "gen_ai.handoff.from_agent": "triage",
            "gen_ai.handoff.to_agent": "billing",
        },
    },
    "executed as a tool": {
        "name": "execute_tool pass_on",
        "attributes": {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "pass_on",
            "gen_ai.agent.handoff.source.name": "triage",
            "gen_ai.agent.handoff.target.name": "billing",
        },
    },
    "a transfer": {
        "name": "execute_tool pass_on billing",
        "attributes": {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "pass_on",
            "gen_ai.transfer.mode": "pass_control",
            "gen_ai.transfer.target.name": "billing",
        },
    },
}


@each("written", _SPANS.values(), ids=list(_SPANS))
def test_a_span_of_its_own_and_the_run_that_follows_are_one_handoff(written: dict[str, Any]) -> None:
    span = {"id": 2, "parent": 1, "at": [50, 51], **written}
    handoffs = found(agent(1, "triage", [0, 100]), span, agent(3, "billing", [110, 200]))
    assert short(handoffs) == [("triage", "billing", "spans")]


def test_a_call_and_a_span_are_one_handoff() -> None:
    span = {"id": 3, "parent": 1, "at": [55, 56], **_SPANS["opentelemetry"]}
    handoffs = found(agent(1, "triage", [0, 100]), tool(2, "transfer_to_billing", [50, 51], 1), span)
    assert short(handoffs) == [("triage", "billing", "calls")]


def test_a_call_that_only_a_message_shows_and_a_span_are_one_handoff() -> None:
    """As OpenLLMetry writes it: the span is begun before it is known to whom, and the call is in the model's answer."""
    asked = json.dumps(
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "transfer_to_billing"}]}]
    )
    back = asked.replace("c1", "c2").replace("billing", "triage")
    chats = [
        {
            "id": 2,
            "parent": 1,
            "at": [10, 20],
            "attributes": {"gen_ai.operation.name": "chat", "gen_ai.output.messages": asked},
        },
        {
            "id": 5,
            "parent": 4,
            "at": [120, 130],
            "attributes": {"gen_ai.operation.name": "chat", "gen_ai.output.messages": back},
        },
    ]
    nameless = {"gen_ai.operation.name": "handoff", "traceloop.span.kind": "handoff"}
    spans = [
        {"id": 3, "parent": 1, "at": [30, 31], "attributes": nameless | {"gen_ai.handoff.from_agent": "triage"}},
        {"id": 6, "parent": 4, "at": [140, 141], "attributes": nameless | {"gen_ai.handoff.from_agent": "billing"}},
    ]
    runs = [agent(1, "triage", [0, 100]), agent(4, "billing", [110, 200]), agent(7, "triage", [210, 220])]
    handoffs = found(*runs, *chats, *spans)
    assert short(handoffs) == [("triage", "billing", "calls"), ("billing", "triage", "calls")]


def test_a_span_that_does_not_say_to_whom_is_to_the_agent_that_runs_next() -> None:
    nameless = {"traceloop.span.kind": "handoff", "gen_ai.handoff.from_agent": "triage"}
    span = {"id": 2, "parent": 1, "at": [50, 51], "attributes": nameless}
    handoffs = found(agent(1, "triage", [0, 100]), span, agent(3, "billing", [110, 200]))
    assert short(handoffs) == [("triage", "billing", "spans")]
    assert short(found(agent(1, "triage", [0, 100]), span)) == [("triage", "", "spans")]


def test_runs_that_alternate_are_handoffs_back_and_forth() -> None:
    runs = [agent(n + 1, "ab"[n % 2], [10 * n, 10 * n + 9]) for n in range(4)]
    assert short(found(*runs)) == [("a", "b", "runs"), ("b", "a", "runs"), ("a", "b", "runs")]


def test_an_agent_inside_another_one_got_its_task_and_one_called_as_a_tool_did_not() -> None:
    outer = agent(1, "planner", [0, 100])
    assert short(found(outer, agent(2, "writer", [10, 90], 1))) == [("planner", "writer", "runs")]
    assert short(found(outer, tool(2, "ask_writer", [5, 95], 1), agent(3, "writer", [10, 90], 2))) == []


def test_runs_that_are_called_alike_whoever_it_is_pass_nothing_on() -> None:
    """LangGraph's supervisors, through OpenInference: only their handoff tools bear names."""
    handoffs = found(
        agent(1, "agent", [0, 100]),
        tool(2, "transfer_to_billing", [50, 51], 1),
        agent(3, "call_agent", [110, 200]),
        agent(4, "agent", [210, 300]),
    )
    assert short(handoffs) == [("agent", "billing", "calls")]


def test_runs_beside_each_other_in_time_pass_nothing_on() -> None:
    assert found(agent(1, "a", [0, 100]), agent(2, "b", [50, 150])) == []


def test_an_agents_own_name_stands_for_that_of_the_tool() -> None:
    handoffs = found(
        agent(1, "Triage", [0, 100]),
        tool(2, "transfer_to_billing_team", [50, 51], 1),
        agent(3, "Billing Team Agent", [110, 200]),
    )
    assert short(handoffs) == [("Triage", "Billing Team Agent", "calls")]


def test_calls_between_are_counted() -> None:
    handoffs = found(
        agent(1, "a", [0, 100]),
        tool(2, "transfer_to_b", [10, 11], 1),
        tool(3, "find_order", [20, 21], 1),
        tool(4, "transfer_to_b", [30, 31], 1),
        agent(5, "b", [110, 120]),
        agent(6, "a", [130, 140]),
    )
    assert [(each.seen_in, each.calls_before) for each in handoffs] == [("calls", 0), ("calls", 1), ("runs", 1)]


def test_calls_without_times_stay_in_their_order() -> None:
    made = ["transfer_to_b", "find", "transfer_to_c"]
    calls = [
        ToolCall(name, name, None, {}, "ok", None, "absent", None, 0, 0, "aa", "a", "bb", turn=turn)
        for turn, name in enumerate(made)
    ]
    assert [(each.to_agent, each.calls_before) for each in handoffs_among(calls)] == [("b", 0), ("c", 1)]


@each(
    ("name", "arguments", "to"),
    [
        ("transfer_to_billing", {}, "billing"),
        ("transferToBilling", {}, None),
        ("transfer_to_agent", {"agent_name": "billing"}, "billing"),
        ("transfer_back_to_supervisor", {}, "supervisor"),
        ("handoff_to_billing", {}, "billing"),
        ("hand_off_to_agent", {"agent_name": "billing", "message": "m"}, "billing"),
        ("Delegate work to coworker", {"task": "t", "coworker": "Billing"}, "Billing"),
        ("delegate_task_to_member", {"member_id": "billing"}, "billing"),
        ("handoff", None, ""),
        ("transfer_funds", {"to": "acc"}, None),
        ("ask_agent", {"agent": "billing"}, None),
        ("handoffs_list", {}, None),
    ],
)
def test_the_name_of_a_tool_says_whether_it_passes_a_task_on(name: str, arguments: Any, to: str | None) -> None:
    status: Any = "absent" if arguments is None else "ok"
    made = ToolCall(name, name, None, arguments, status, None, "absent", None, 0, 0, "aa", "a", "bb")
    assert passed_on_to(made) == to


def test_a_run_is_asked_for_those_that_it_made_itself() -> None:
    extraction = extract(
        trace([agent(1, "a", [0, 100]), tool(2, "transfer_to_b", [10, 11], 1), agent(3, "b", [110, 120])])
    )
    context = ExtractionContext(extraction)
    made = [short(SubjectContext(context, one).handoffs()) for one in subjects_of(extraction, "agent")]
    assert made == [[("a", "b", "calls")], []]
    assert [short(SubjectContext(context, one).handoffs()) for one in subjects_of(extraction, "trace")] == [made[0]]


def test_a_session_has_those_of_all_its_traces() -> None:
    session = {"gen_ai.conversation.id": "s"}
    parts = []
    for number in (1, 2):
        spans = [
            agent(1, "a", [0, 100], **session),
            tool(2, "look", [5, 6], 1),
            tool(3, "transfer_to_b", [10, 11], 1),
        ]
        part = part_of(extract(trace(spans, number.to_bytes(16, "big"))), "s")
        assert part is not None
        parts.append(part)
    found = SessionContext(Session("s", "default", parts, [], {}, "quiet", [])).handoffs()
    assert [(each.to_agent, each.calls_before) for each in found] == [("b", 1), ("b", 2)]  # of two looks
