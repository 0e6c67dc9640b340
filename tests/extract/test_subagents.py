"""Which spans within a tool's execution are runs of agents that nothing calls so."""

import json
from typing import Any

import build
from build import each
from tracegrade.extract.extract import extract

_ASKS = json.dumps(
    [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c2", "name": "count_boxes", "arguments": {}}]}]
)
MODEL = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": _ASKS}


def tool(name: str, call_id: str) -> dict[str, str]:
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id}


def spans(between: dict[str, Any], *, works: bool = True) -> list[dict[str, Any]]:
    """An agent's tool within which a span is around a model call and, where it works, a tool."""
    inner = {"id": 5, "parent": 3, "at": [20, 22], "attributes": tool("count_boxes", "c2")}
    return [
        {"id": 1, "name": "desk", "at": [0, 100]},
        {"id": 2, "parent": 1, "at": [10, 60], "attributes": tool("ask_stock", "c1")},
        {"id": 3, "parent": 2, "at": [11, 59], **between},
        {"id": 4, "parent": 3, "at": [13, 15], "attributes": MODEL},
        *([inner] if works else []),
    ]


def agents_of(given: list[dict[str, Any]]) -> list[str]:
    return [call.agent for call in extract(build.trace(given)).calls if call.name == "count_boxes"]


def test_a_function_around_model_calls_and_tools_is_an_agents_run() -> None:
    assert agents_of(spans({"name": "stock_agent"})) == ["stock_agent"]
    assert agents_of(spans({"name": "agent: stock"})) == ["stock"]


@each(
    "between",
    [{"name": name} for name in ("LangGraph", "StockAgent.run", "run.task", "call_model", "agent", "tools", "POST /x")]
    + [{"name": "stock_agent", "kind": kind} for kind in ("client", "server", "consumer")],
)
def test_spans_whose_names_are_no_agents_are_none(between: dict[str, Any]) -> None:
    assert agents_of(spans(between)) == [""]


def test_a_function_that_asks_a_model_without_tools_is_no_agent() -> None:
    runs = extract(build.trace(spans({"name": "stock_agent"}, works=False))).runs
    assert [run.agent for run in runs] == [""]


@each(
    "event",
    [
        "AgentInput(input=[], current_agent_name='stock_agent')",
        '{"input": [], "current_agent_name": "stock_agent"}',
        json.dumps(json.dumps({"current_agent_name": "stock_agent"})),
    ],
)
def test_a_step_says_whose_it_is(event: str) -> None:
    step = {"id": 9, "parent": 3, "name": "init_run", "at": [12, 13], "attributes": {"output.value": event}}
    assert agents_of([*spans({"name": "FunctionAgent.run"}), step]) == ["stock_agent"]
    assert agents_of([*spans({"name": "FunctionAgent.run"}), step | {"parent": 1}]) == [""]


@each(
    ("said", "agent"),
    [
        ("do as if current_agent_name='other'", ""),
        ("AgentInput(input=[\"current_agent_name='other'\"], current_agent_name='stock_agent')", "stock_agent"),
    ],
)
def test_a_text_that_quotes_an_agent_does_not_name_the_run(said: str, agent: str) -> None:
    step = {"id": 9, "parent": 3, "name": "init_run", "at": [12, 13], "attributes": {"input.value": said}}
    assert agents_of([*spans({"name": "FunctionAgent.run"}), step]) == [agent]


def test_steps_further_in_say_it_where_no_model_call_is_shown() -> None:
    step = {"id": 9, "parent": 6, "at": [14, 15], "attributes": {"out": '{"current_agent_name": "stock_agent"}'}}
    given = [*spans({"name": "run.task"})[:3], {"id": 6, "parent": 3, "name": "run.task", "at": [12, 58]}, step]
    tool_within = {"id": 5, "parent": 6, "at": [20, 22], "attributes": tool("count_boxes", "c2")}
    assert agents_of([*given, tool_within]) == ["stock_agent"]


def test_an_agent_shown_as_a_failure_of_its_tool_is_named_by_its_steps() -> None:
    summary = "llamaindex.step.input_summary"
    steps = [
        (2, 1, "A.call_tool", "ToolCall(tool_name='ask_stock', tool_kwargs={'text': 'x'}, tool_id='c1')"),
        (3, 2, "FunctionTool.acall", ""),
        (4, 3, "FunctionAgent.run", ""),
        (5, 4, "A.init_run", "AgentInput(input=[], current_agent_name='stock_agent')"),
        (7, 4, "A.call_tool", "ToolCall(tool_name='count_boxes', tool_kwargs={}, tool_id='c2')"),
    ]
    given = [
        {"id": span, "parent": parent, "name": name, "at": [span, 90 - span], "attributes": {summary: said}}
        for span, parent, name, said in steps
    ]
    model = {"id": 6, "parent": 4, "name": "LLM.achat", "at": [6, 7], "attributes": MODEL}
    assert agents_of([{"id": 1, "name": "run", "at": [0, 100]}, *given, model]) == ["stock_agent"]


def test_a_run_of_several_turns_ends_with_the_last() -> None:
    told = json.dumps([*json.loads(_ASKS), {"role": "tool", "parts": []}])
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Seven."}]}])
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": told, "gen_ai.output.messages": said}
    asking, answering = (agent | {"gen_ai.output.messages": output} for output in (_ASKS, said))
    turns = [
        {"id": 1, "at": [0, 100]},
        {"id": 2, "parent": 1, "at": [1, 9], "attributes": asking},
        {"id": 3, "parent": 2, "at": [2, 8], "attributes": MODEL},
        {"id": 4, "parent": 1, "at": [10, 19], "attributes": answering},
        {"id": 5, "parent": 4, "at": [11, 18], "attributes": chat},
    ]
    runs = extract(build.trace(turns)).runs
    starts, ends = ([run.start_ns for run in runs], [run.end_ns for run in runs])
    first, *_, last = build.trace(turns[1:4:2]).spans
    assert (starts, ends) == ([first.start_ns], [last.end_ns])
    assert runs[0].final_answer == "Seven."
