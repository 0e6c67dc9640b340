"""Spans that look like tool calls and are none: no call is read by shape of any, alone or within an agent's trace."""

import json
from typing import Any

import pytest

import build
from build import each
from tracegrade.extract.extract import extract
from tracegrade.extract.shape import messages

_CONVERSATION = json.dumps(
    [
        {"role": "user", "content": "Refund order 7."},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c9", "function": {"name": "refund", "arguments": '{"order": 7}'}}],
        },
        {"role": "tool", "tool_call_id": "c9", "content": "done"},
    ]
)
_BODY = json.dumps({"messages": json.loads(_CONVERSATION), "tools": [{"name": "search"}]})

# The guard that keeps each out, and the span.
FOREIGN: list[tuple[str, dict[str, Any]]] = [
    (
        "an HTTP server with bodies recorded",
        {
            "name": "POST /v1/tools/search",
            "kind": "server",
            "attributes": {"http.request.method": "POST", "http.request.body": _BODY, "tool.input": "{}"},
        },
    ),
    (
        "an HTTP server that says nothing of HTTP",
        {"name": "search", "kind": "server", "attributes": {"op": "tool", "input": '{"q": "tea"}', "output": "[]"}},
    ),
    (
        "an HTTP client",
        {
            "name": "search",
            "kind": "client",
            "attributes": {"url.full": "https://shop/tools/search", "op": "tool", "request": "{}", "response": "{}"},
        },
    ),
    (
        "a statement of SQL that holds a conversation",
        {
            "name": "search",
            "attributes": {
                "db.query.text": _CONVERSATION,
                "db.operation.name": "tool",
                "result": "1",
                "tool_name": "x",
            },
        },
    ),
    (
        "a command of MongoDB",
        {"name": "shop.tools", "attributes": {"db.system": "mongodb", "db.statement": _BODY, "type": "tool"}},
    ),
    ("a command of Redis", {"name": "GET", "attributes": {"db.system": "redis", "function": "search", "args": "[]"}}),
    (
        "a message of Kafka",
        {
            "name": "search process",
            "attributes": {"messaging.system": "kafka", "messaging.operation.type": "tool", "payload": _BODY},
        },
    ),
    ("a consumer", {"name": "search", "kind": "consumer", "attributes": {"tool": "search", "payload": "{}"}}),
    (
        "a function that Sentry watches",
        {
            "name": "search",
            "attributes": {"sentry.op": "function", "sentry.origin": "manual", "code.function": "search"},
        },
    ),
    (
        "a function in the cloud",
        {"name": "search", "attributes": {"faas.name": "search", "function": "search", "input": "{}", "type": "tool"}},
    ),
    (
        "a step of Jenkins",
        {"name": "search", "attributes": {"jenkins.pipeline.step.type": "tool_install", "jenkins.step.name": "tool"}},
    ),
    (
        "a step of GitHub",
        {
            "name": "Run tools",
            "attributes": {"github.step.name": "Install tool: jq", "cicd.pipeline.task.type": "build"},
        },
    ),
    (
        "an activity of Temporal",
        {"name": "RunActivity:search", "attributes": {"temporalActivityType": "search", "temporalWorkflowID": "w"}},
    ),
    (
        "a task of Celery",
        {
            "name": "run/search",
            "attributes": {"celery.action": "run", "celery.task_name": "x.tools.search", "kind": "task"},
        },
    ),
    (
        "a field of GraphQL",
        {
            "name": "search",
            "attributes": {"graphql.operation.type": "tool", "graphql.field.name": "search", "args": "{}"},
        },
    ),
    (
        "an MCP server",
        {
            "name": "tools/call search",
            "kind": "server",
            "attributes": {"rpc.system": "mcp", "tool": "search", "args": "{}"},
        },
    ),
    (
        "an evaluation with a trajectory",
        {
            "name": "tool_correctness",
            "attributes": {"acme.type": "evaluator", "tool_name": "search", "input": _CONVERSATION},
        },
    ),
    (
        "a guardrail",
        {"name": "guard", "attributes": {"acme.kind": "guardrail", "tool_name": "search", "input": "{}"}},
    ),
    ("a retriever", {"name": "search", "attributes": {"kind": "retriever", "function": "search", "input": "tea"}}),
    ("an embedding", {"name": "search", "attributes": {"kind": "embedding", "function": "search", "input": "tea"}}),
    (
        "a prompt that quotes tool calls",
        {"name": "render", "attributes": {"acme.kind": "prompt", "tool_name": "search", "input": "{}"}},
    ),
    (
        "baggage that copies a call's id",
        {"name": "charge", "attributes": {"baggage.tool_call_id": "c1", "baggage.gen_ai.agent": "shop"}},
    ),
    ("a runnable named tools", {"name": "tools", "attributes": {"acme.kind": "chain", "input": _CONVERSATION}}),
    (
        "a graph's node named tool",
        {"name": "tool", "attributes": {"graph.node": "tool", "input": "{}", "output": "{}"}},
    ),
    (
        "a function of a program, in a name with a place",
        {
            "name": "Rendering function {func.__name__}",
            "attributes": {
                "func.__name__": "search",
                "logfire.msg_template": "Rendering function {func.__name__}",
                "input": '{"q": "tea"}',
                "output": "1",
            },
        },
    ),
    (
        "a name with a place for what the span does not say",
        {
            "name": "Executing function call {fn!r}",
            "attributes": {"logfire.msg_template": "Executing function call {fn!r}", "function.input": "{}"},
        },
    ),
    (
        "a conversation that a function returned, in an event",
        {"name": "load", "attributes": {}, "events": [{"acme.fn.output": {"output": _CONVERSATION}}]},
    ),
    ("a function named function", {"name": "function", "attributes": {"acme.kind": "chain", "input": "{}"}}),
    (
        "a list of tools",
        {"name": "list", "attributes": {"acme.type": "tool_definitions", "output": '[{"name": "search"}]'}},
    ),
    (
        "tools that are listed",
        {"name": "list", "attributes": {"acme.operation": "tools", "tool_name": "x", "result": "[]"}},
    ),
    (
        "a wait for leave",
        {"name": "ask", "attributes": {"span_kind": "tool.blocked_on_user", "tool": "x", "input": "{}"}},
    ),
    (
        "an agent that has a tool's name",
        {"name": "ask", "attributes": {"acme.kind": "agent", "agent_name": "helper", "tool_name": "x", "input": "{}"}},
    ),
    (
        "a finish reason",
        {"name": "poll", "attributes": {"finish_reason.type": "tool", "error.type": "tool", "output": "x"}},
    ),
    (
        "a function of the application of another name",
        {"name": "search_index", "attributes": {"code.function.name": "search_index", "input": '{"q": "tea"}'}},
    ),
    (
        "a span with model messages of its own",
        {"name": "relay", "attributes": {"acme.kind": "tool", "tool_name": "relay", "messages": _CONVERSATION}},
    ),
]

# A real agent, in its own words: one call of search, asked for by the model.
AGENT: list[dict[str, Any]] = [
    {"id": 1, "name": "shop", "at": [0, 100], "attributes": {"acme.kind": "agent", "agent_name": "shop"}},
    {
        "id": 2,
        "parent": 1,
        "name": "infer",
        "at": [5, 10],
        "attributes": {
            "acme.kind": "llm",
            "acme.model": "m-1",
            "acme.input.messages": '[{"role": "user", "content": "Find tea."}]',
            "acme.output.messages": json.dumps(
                [
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {
                                "id": "c1",
                                "type": "function",
                                "function": {"name": "search", "arguments": '{"q": "tea"}'},
                            }
                        ],
                    }
                ]
            ),
        },
    },
    {
        "id": 3,
        "parent": 1,
        "name": "search",
        "at": [12, 20],
        "attributes": {"acme.kind": "tool", "acme.input": '{"q": "tea"}', "acme.output": '["green"]'},
    },
    {
        "id": 4,
        "parent": 1,
        "name": "infer",
        "at": [70, 80],
        "attributes": {
            "acme.kind": "llm",
            "acme.model": "m-1",
            "acme.input.messages": json.dumps(
                [
                    {"role": "user", "content": "Find tea."},
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": '{"q": "tea"}'}}],
                    },
                    {"role": "tool", "tool_call_id": "c1", "content": '["green"]'},
                ]
            ),
            "acme.output.messages": '[{"role": "assistant", "content": "Green tea."}]',
        },
    },
]
CALLS = [("search", "c1", {"q": "tea"}, ["green"], "shop")]


def calls_of(spans: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    extraction = extract(build.trace(spans))
    return [(call.name, call.call_id, call.arguments, call.output, call.agent) for call in extraction.calls]


def test_an_agent_in_its_own_words_is_read_by_shape() -> None:
    assert calls_of(AGENT) == CALLS
    assert {call.dialect for call in extract(build.trace(AGENT)).calls} == {"shape"}


def test_a_tool_in_a_trace_without_a_model_or_an_agent_is_no_call() -> None:
    extraction = extract(build.trace([AGENT[2]]))
    assert extraction.calls == []
    assert len(extraction.unread_tool_spans) == 1


@each(("what", "span"), FOREIGN, ids=[what for what, _ in FOREIGN])
def test_no_call_is_read_of(what: str, span: dict[str, Any]) -> None:
    assert calls_of([{"id": 1, **span}]) == []
    # Beside the call, below it, below the model that asked, and before the model asked.
    for parent, at in ((1, [30, 40]), (3, [13, 19]), (2, [6, 9]), (1, [1, 4])):
        assert calls_of([*AGENT, {"id": 9, "parent": parent, "at": at, **span}]) == CALLS, (parent, at)


def _as_one_text(span: dict[str, Any], nest: bool) -> dict[str, Any]:
    """The span with all its attributes as one JSON object, in which keys with dots are kept, or nested."""
    held: dict[str, Any] = {}
    for key, value in span["attributes"].items():
        *outer, last = key.split(".") if nest else [key]
        within = held
        for part in outer:
            within = within.setdefault(part, {})
        within[last] = value
    return span | {"attributes": {"acme.data": json.dumps(held)}}


@each("nest", [False, True])
def test_attributes_in_one_json_text_are_read_and_guarded_alike(nest: bool) -> None:
    agent = [_as_one_text(span, nest) for span in AGENT]
    assert calls_of(agent) == CALLS
    read = []
    for what, foreign in FOREIGN:
        span = _as_one_text(foreign, nest)
        for parent, at in ((1, [30, 40]), (3, [13, 19]), (2, [6, 9]), (1, [1, 4])):
            if calls_of([*agent, {"id": 9, "parent": parent, "at": at, **span}]) != CALLS:
                read.append((what, parent, at))
    assert not read


def test_turns_that_repeat_their_history_have_each_call_once() -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Count."}]
    spans: list[dict[str, Any]] = [AGENT[0] | {"at": [0, 1000]}]
    for turn in range(10):
        asked = {
            "role": "assistant",
            "tool_calls": [{"id": f"c{turn}", "function": {"name": "count", "arguments": json.dumps({"n": turn})}}],
        }
        attributes = {"acme.kind": "llm", "acme.model": "m", "acme.messages": json.dumps([*history, asked])}
        spans.append(
            {"id": 10 + turn, "parent": 1, "name": "infer", "at": [turn * 10, turn * 10 + 4], "attributes": attributes}
        )
        history += [asked, {"role": "tool", "tool_call_id": f"c{turn}", "content": str(turn)}]
    spans.append(
        {
            "id": 30,
            "parent": 1,
            "name": "infer",
            "at": [200, 210],
            "attributes": {"acme.kind": "llm", "acme.model": "m", "acme.messages": json.dumps(history)},
        }
    )
    assert [(name, arguments) for name, _, arguments, _, _ in calls_of(spans)] == [
        ("count", {"n": turn}) for turn in range(10)
    ]


def test_nothing_is_read_by_shape_where_no_span_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("read by shape")

    for name in ("read_by_shape", "fill", "WholeNode"):
        monkeypatch.setattr(f"tracegrade.extract.extract.{name}", fail)
    asked = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": 1}}]}]
    model = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(asked)}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1"}
    trace = build.trace([{"id": 1, "attributes": model}, {"id": 2, "attributes": tool}])
    assert not any(span.is_whole for span in trace.spans)
    assert [call.name for call in extract(trace).calls] == ["find"]


def test_a_span_around_model_calls_that_a_dialect_reads_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    messages_of = messages.messages_of
    monkeypatch.setattr(
        "tracegrade.extract.shape.unclaimed_span.messages_of",
        lambda *given: searched.append(given) or messages_of(*given),
    )
    around = {"id": 1, "name": "infer", "attributes": {"acme.kind": "llm", "acme.output": _CONVERSATION}}
    said = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": '[{"role": "assistant", "content": "Yes."}]'}
    model_calls = [{"id": number, "parent": 1, "attributes": said} for number in (2, 3)]
    assert extract(build.trace([around, *model_calls])).calls == []
    assert not searched
    assert len(extract(build.trace([around])).calls) == 1  # the same span alone is a model call
    assert searched


def test_a_span_around_the_first_model_call_is_no_execution_of_a_declared_tool() -> None:
    tools = json.dumps([{"type": "function", "function": {"name": "weigh", "parameters": {}}}])
    model = {"gen_ai.operation.name": "chat", "gen_ai.tool.definitions": tools}
    around = {"id": 1, "name": "weigh", "at": [0, 100]}
    chat = {"id": 2, "parent": 1, "at": [10, 20], "attributes": model}
    after = {"id": 3, "parent": 1, "name": "weigh", "at": [30, 40]}
    assert [call.span_id for call in extract(build.trace([around, chat])).calls] == []
    assert [call.name for call in extract(build.trace([around, chat, after])).calls] == ["weigh"]


def test_no_message_is_searched_for_where_none_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    nested = messages.nested
    monkeypatch.setattr(messages, "nested", lambda attributes: searched.append(attributes) or nested(attributes))
    said = {"llm.model": "m", "tokens.input": 7, "reasons": ["tool_use"], "span.type": "llm", "prompt": "Hello"}
    span = build.trace([{"id": 1, "attributes": said}]).spans[0]
    assert messages.messages_of(span) == messages.NOTHING
    assert not searched
    for key, value in {
        "out.0.role": "user",
        "out.type": "function_call",
        "tool_calls.0.name": "find",
        "text": '[{"role": "user", "content": "Hello"}]',
        "object": {"role": "user"},
        "list": [{"role": "user"}],
    }.items():
        messages.messages_of(build.trace([{"id": 1, "attributes": {**said, key: value}}]).spans[0])
        assert searched, key
        searched.clear()
