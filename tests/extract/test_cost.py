"""What extraction costs, by counting the lines that are run: twice the trace must not cost much more than twice."""

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import build
from build import each
from tracegrade.extract.extract import extract
from tracegrade.model.trace import Trace

AGENT = {"id": 1, "at": [0, 10**7], "attributes": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}}


def work(trace: Trace) -> int:
    """How many lines of Python are run to extract a trace."""
    extract(trace)  # what is learnt once is learnt
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        extract(trace)
    finally:
        sys.settrace(before)
    return lines


def tool(number: int, parent: int | None = 1, **attributes: Any) -> dict[str, Any]:
    known = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    at = {"at": attributes.pop("at")} if "at" in attributes else {}
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return {"id": number, "parent": parent, "attributes": known | named, **at}


def asked(turn: int) -> dict[str, Any]:
    call = {"type": "tool_call", "id": f"c{turn}", "name": "search", "arguments": {"q": turn}}
    return {"role": "assistant", "parts": [call]}


def answered(turn: int) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{turn}", "response": turn}]}


def chat(number: int, parent: int, turn: int, history: list[Any], **more: Any) -> dict[str, Any]:
    messages = {"gen_ai.input.messages": json.dumps(history), "gen_ai.output.messages": json.dumps([asked(turn)])}
    return {"id": number, "parent": parent, "attributes": {"gen_ai.operation.name": "chat", **messages}, **more}


def chain(size: int) -> list[dict[str, Any]]:
    return [AGENT, *(tool(number, number - 1) for number in range(2, size))]


def chain_of_agents(size: int) -> list[dict[str, Any]]:
    return [{**AGENT, "id": number, "parent": number - 1 or None} for number in range(1, size)]


def chain_of_chats(size: int) -> list[dict[str, Any]]:
    return [AGENT, *(chat(number, number - 1, number, [], at=[number, 10**6]) for number in range(2, size))]


def one_id(size: int) -> list[dict[str, Any]]:
    return [AGENT, *(tool(number, gen_ai__tool__call__id="c1") for number in range(2, size))]


def no_ids(size: int) -> list[dict[str, Any]]:
    asking = [chat(2 * n, 1, 0, [], at=[n, n + 1]) for n in range(1, size)]
    return [AGENT, *asking, *(tool(2 * n + 1, at=[n, n + 1]) for n in range(1, size))]


def at_one_time(size: int) -> list[dict[str, Any]]:
    return [AGENT, *({**tool(number), "at": [5, 6], "scope": f"s{number % 3}"} for number in range(2, size))]


def handoffs(size: int) -> list[dict[str, Any]]:
    handoff = {"openinference.span.kind": "TOOL"}
    spans = [{"id": 2 * n, "parent": 1, "name": "handoff", "attributes": handoff} for n in range(1, size)]
    return [AGENT, *spans, *(chat(2 * n + 1, 1, n, []) for n in range(1, size))]


def histories(size: int) -> list[dict[str, Any]]:
    history: list[Any] = [{"role": "user", "parts": [{"type": "text", "content": "go"}]}]
    spans = [AGENT]
    for turn in range(1, size):
        spans.append(chat(turn + 1, 1, turn, history))
        history += [asked(turn), answered(turn)]
    return spans


def flattened_histories(size: int) -> list[dict[str, Any]]:
    history: dict[str, Any] = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "go",
    }
    spans: list[dict[str, Any]] = [{**AGENT, "attributes": {"openinference.span.kind": "AGENT"}}]
    for turn in range(1, size):
        call = "message.tool_calls.0.tool_call"
        said = {f"{call}.id": f"c{turn}", f"{call}.function.name": "search", f"{call}.function.arguments": "{}"}
        out = {f"llm.output_messages.0.{key}": value for key, value in said.items()}
        attributes = {"openinference.span.kind": "LLM", **history, **out}
        spans.append({"id": turn + 1, "parent": 1, "attributes": attributes})
        history |= {f"llm.input_messages.{2 * turn - 1}.{key}": value for key, value in said.items()}
        result = {"role": "tool", "tool_call_id": f"c{turn}", "content": "found"}
        history |= {f"llm.input_messages.{2 * turn}.message.{key}": value for key, value in result.items()}
    return spans


SHAPES: list[Callable[[int], list[dict[str, Any]]]] = [
    *(chain, chain_of_agents, chain_of_chats, one_id, no_ids, at_one_time, handoffs, histories, flattened_histories)
]


@pytest.mark.long
@each("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_twice_the_trace_costs_twice(shape: Callable[[int], list[dict[str, Any]]]) -> None:
    small, large = build.trace(shape(100)), build.trace(shape(200))
    assert work(large) / work(small) < 1.15 * size(large) / size(small)


def test_twice_the_messages_of_one_model_call_cost_twice() -> None:
    def spans(messages: int) -> list[dict[str, Any]]:
        said = json.dumps([asked(number) for number in range(messages)])
        return [{"id": 1, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}}]

    small, large = build.trace(spans(200)), build.trace(spans(400))
    assert len(extract(large).calls) == 400
    assert work(large) / work(small) < 2.3


def size(trace: Trace) -> int:
    """Spans and attributes."""
    return len(trace.spans) + sum(len(span.attributes) for span in trace.spans)


@pytest.mark.parametrize("shape", [histories, flattened_histories], ids=lambda shape: shape.__name__)
def test_results_are_found_in_histories_that_go_on(shape: Callable[[int], list[dict[str, Any]]]) -> None:
    calls = extract(build.trace(shape(20))).calls
    assert len(calls) == 19
    assert [call.output_status for call in calls] == ["ok" if shape is histories else "text"] * 18 + ["absent"]
