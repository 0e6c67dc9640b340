"""Agents of no known framework: what models and tools say, in each provider's form, written in each of several ways."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import build
from build import each
from tracegrade.extract.extract import extract

Json = Any
Span = dict[str, Any]


class Call(NamedTuple):
    """One call that was made."""

    id: str
    name: str
    arguments: dict[str, Json]
    result: Json


TURNS: list[list[Call]] = [
    [
        Call("a1", "get_weather", {"city": "Bern"}, {"temp": 21}),
        Call("a2", "get_weather", {"city": "Rome"}, {"temp": 3}),
    ],
    [Call("b1", "list_orders", {}, {"orders": ["o1", "o2"]})],
    [],
]


class Exchange(NamedTuple):
    """What a model was asked and answered, as its provider's API has it; messages, and those of the answer."""

    request: Json
    response: Json
    messages: list[Json]
    answer: list[Json]


def openai(calls: list[Call], messages: list[Json]) -> Iterator[Exchange]:
    """Chat completions."""
    asked = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in calls
    ]
    message = {"role": "assistant", "content": None, "tool_calls": asked} if calls else _said("assistant")
    yield Exchange(
        {"model": "m", "messages": messages}, {"model": "m", "choices": [{"message": message}]}, messages, [message]
    )
    messages.append(message)
    messages += [{"role": "tool", "tool_call_id": call.id, "content": json.dumps(call.result)} for call in calls]


def responses(calls: list[Call], messages: list[Json]) -> Iterator[Exchange]:
    """OpenAI's Responses."""
    asked = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": json.dumps(call.arguments)}
        for call in calls
    ]
    output = asked or [{"type": "message", **_said("assistant", {"type": "output_text", "text": "Done."})}]
    yield Exchange({"model": "m", "input": messages}, {"model": "m", "output": output}, messages, output)
    messages += output
    messages += [
        {"type": "function_call_output", "call_id": call.id, "output": json.dumps(call.result)} for call in calls
    ]


def anthropic(calls: list[Call], messages: list[Json]) -> Iterator[Exchange]:
    """Anthropic's Messages."""
    asked = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in calls]
    message = _said("assistant", {"type": "text", "text": "Let me look."}, *asked)
    yield Exchange({"model": "m", "messages": messages}, {"model": "m", **message}, messages, [message])
    messages.append(message)
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": json.dumps(call.result)} for call in calls]
    messages += [{"role": "user", "content": results}] if calls else []


def gemini(calls: list[Call], messages: list[Json]) -> Iterator[Exchange]:
    """Gemini's generateContent, which has no ids."""
    asked = [{"functionCall": {"name": call.name, "args": call.arguments}} for call in calls]
    content = {"role": "model", "parts": asked or [{"text": "Done."}]}
    yield Exchange({"model": "m", "contents": messages}, {"candidates": [{"content": content}]}, messages, [content])
    messages.append(content)
    answers = [{"functionResponse": {"name": call.name, "response": {"result": call.result}}} for call in calls]
    messages += [{"role": "user", "parts": answers}] if calls else []


def bedrock(calls: list[Call], messages: list[Json]) -> Iterator[Exchange]:
    """Bedrock's Converse."""
    asked = [{"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}} for call in calls]
    message = {"role": "assistant", "content": asked or [{"text": "Done."}]}
    yield Exchange({"modelId": "m", "messages": messages}, {"output": {"message": message}}, messages, [message])
    messages.append(message)
    results = [{"toolResult": {"toolUseId": call.id, "content": [{"json": call.result}]}} for call in calls]
    messages += [{"role": "user", "content": results}] if calls else []


def langchain(calls: list[Call], messages: list[Json]) -> Iterator[Exchange]:
    """LangChain's messages, dumped."""
    asked = [{"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"} for call in calls]
    message = _dumped("AIMessage", "" if calls else "Done.", tool_calls=asked)
    response = {"generations": [[{"text": "", "message": message}]]}
    yield Exchange({"messages": [messages]}, response, messages, [message])
    messages.append(message)
    messages += [
        _dumped("ToolMessage", json.dumps(call.result), tool_call_id=call.id, name=call.name) for call in calls
    ]


def _said(role: str, *content: Json) -> Json:
    return {"role": role, "content": list(content) if content else "Done."}


def _dumped(kind: str, content: str, **more: Json) -> Json:
    types = {"HumanMessage": "human", "AIMessage": "ai", "ToolMessage": "tool"}
    name = ["langchain", "schema", "messages", kind]
    return {"lc": 1, "type": "constructor", "id": name, "kwargs": {"content": content, "type": types[kind], **more}}


ASKED: dict[Callable[[list[Call], list[Json]], Iterator[Exchange]], Json] = {
    openai: {"role": "user", "content": "Weather?"},
    responses: {"role": "user", "content": "Weather?"},
    anthropic: {"role": "user", "content": "Weather?"},
    gemini: {"role": "user", "parts": [{"text": "Weather?"}]},
    bedrock: {"role": "user", "content": [{"text": "Weather?"}]},
    langchain: _dumped("HumanMessage", "Weather?"),
}

# How a sender writes an exchange on the span of a model.
MODELS: dict[str, Callable[[Exchange], Span]] = {
    "request and response": lambda said: _attributes(
        {"acme.kind": "llm", "acme.model": "m", "acme.request": said.request, "acme.response": said.response}
    ),
    "inputs and outputs": lambda said: _attributes(
        {"span.type": "LLM", "inputs": said.request, "outputs": said.response}
    ),
    "nothing that says model": lambda said: _attributes({"acme.request": said.request, "acme.response": said.response}),
    "messages": lambda said: _attributes(
        {"llm.model": "m", "acme.input_messages": said.messages, "acme.output_messages": said.answer}
    ),
    "one text": lambda said: _attributes(
        {"acme.data": {"kind": "llm", "model": "m", "input": said.request, "output": said.response}}
    ),
    "two events": lambda said: _attributes(
        {"acme.kind": "llm", "acme.model": "m"},
        {"acme.request": {"body": json.dumps(said.request)}},
        {"acme.response": {"body": json.dumps(said.response)}},
    ),
    "one event": lambda said: _attributes(
        {"acme.kind": "llm", "acme.model": "m"},
        {"llm.content": {"input": json.dumps(said.request), "output": json.dumps(said.response)}},
    ),
}

# How it writes the execution of a call, if at all.
EXECUTIONS: dict[str, Callable[[Call], Span | None]] = {
    "none": lambda call: None,
    "kind, name and values": lambda call: _named(
        call.name,
        {"acme.kind": "tool", "acme.tool.name": call.name, "acme.input": call.arguments, "acme.output": call.result},
    ),
    "id and snake case": lambda call: _named(
        "tool", {"type": "tool", "tool_call_id": call.id, "tool_name": call.name, **_under_tool(call)}
    ),
    "reprs": lambda call: _named(
        f"{call.name}.run", {"op": "tool_call", "kwargs": repr(call.arguments), "return_value": repr(call.result)}
    ),
    "the tool's name alone": lambda call: _named(call.name, {"input": call.arguments, "output": call.result}),
    "a sentence alone": lambda call: _named(f"execute_tool {call.name}", {}),
    "one text": lambda call: _named(
        "call tool",
        {
            "kind": "tool",
            "data": {"tool": call.name, "arguments": call.arguments, "result": call.result, "id": call.id},
        },
    ),
    "events": lambda call: (
        _named(f"tool {call.name}", {"kind": "tool"})
        | {
            "events": [
                {"tool.start": {"input": json.dumps(call.arguments)}},
                {"tool.end": {"output": json.dumps(call.result)}},
            ]
        }
    ),
    "envelopes": lambda call: _named(
        call.name,
        {
            "kind": "TOOL",
            "inputs": {"args": [], "kwargs": call.arguments},
            "output": {"content": [{"type": "text", "text": json.dumps(call.result)}], "isError": False},
        },
    ),
}


def _under_tool(call: Call) -> dict[str, Json]:
    return {"tool_args": call.arguments, "tool_result": call.result}


def _attributes(values: dict[str, Json], *events: Json) -> Span:
    written = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    return {"attributes": written, "events": list(events)}


def _named(name: str, values: dict[str, Json]) -> Span:
    return {"name": name, **_attributes(values)}


def traced(provider: Any, model: str, execution: str) -> list[Span]:
    """The spans of an agent whose sender writes models and executions so."""
    spans: list[Span] = [{"id": 1, "name": "agent", "at": [0, 1000], "attributes": {"acme.kind": "agent"}}]
    messages = [ASKED[provider]]
    at = 5
    for calls in TURNS:
        for exchange in provider(calls, messages):
            written = MODELS[model](exchange)
            spans.append({"id": len(spans) + 1, "parent": 1, "name": "model call", "at": [at, at + 5], **written})
        at += 10
        for call in calls:
            if (made := EXECUTIONS[execution](call)) is not None:
                spans.append({"id": len(spans) + 1, "parent": 1, "at": [at, at + 3], **made})
            at += 5
    return spans


@each("provider", list(ASKED), ids=lambda provider: provider.__name__)
def test_every_way_of_writing_is_read(provider: Any) -> None:
    made = sorted((call.name, json.dumps(call.arguments), json.dumps(call.result)) for calls in TURNS for call in calls)
    wrong = {}
    for model, execution in product(MODELS, EXECUTIONS):
        found = extract(build.trace(traced(provider, model, execution))).calls
        read = sorted((call.name, json.dumps(call.arguments), json.dumps(call.output)) for call in found)
        if read != made:
            wrong[model, execution] = read
    assert not wrong


@each(
    "root",
    [
        _named("run", {"acme.kind": "agent", "agent.name": "shop"}),
        _named("run", {"type": "agent", "name": "shop"}),
        _named("run", {"acme.agent_name": "shop"}),
        _named("run", {"kind": "AGENT", "agentName": "shop"}),
        _named("invoke_agent shop", {"op": "invoke_agent"}),
        _named("shop", {"span_type": "agent"}),
        _named("Agent: shop", {"kind": "agent"}),
        _named("run", {"acme.data": {"kind": "agent", "name": "shop"}}),
        _named("run", {"acme.data": {"type": "agent", "agent": {"name": "shop", "id": "x"}}}),
    ],
)
def test_every_way_of_naming_an_agent_is_read(root: Span) -> None:
    spans = traced(openai, "request and response", "kind, name and values")
    extraction = extract(build.trace([spans[0] | root, *spans[1:]]))
    assert [run.agent for run in extraction.runs] == ["shop"]
    assert {call.agent for call in extraction.calls} == {"shop"}
