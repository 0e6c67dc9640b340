import tracemalloc
from typing import Any, get_args

import build
from build import each, span_id
from tracegrade.extract.extract import extract
from tracegrade.extract.how_read import spans_not_read
from tracegrade.extract.unread import keys_of, looks_like_a_tool, looks_like_gen_ai, unread_spans
from tracegrade.model.extraction import Extraction, UnreadWork, WhyUnread


@each(
    "text",
    [
        *(
            "tool.name",
            "acme.tool_name",
            "toolName",
            "ai.toolCall.args",
            "TOOL",
            "search.tool",
            "MyTool",
            "executeTool",
        ),
        *(
            "execute_tool find",
            "tool_call",
            "toolcall",
            "run_tool",
            "function_call",
            "FunctionCall.name",
            "tools/call x",
        ),
    ],
)
def test_what_looks_like_a_tool_call(text: str) -> None:
    assert looks_like_a_tool(text)


@each(
    "text",
    [
        *(
            "",
            "GET /tools",
            "tools",
            "toolbox",
            "spool",
            "llm.tools.0",
            "tool_choice",
            "toolChoice",
            "tool.definitions",
        ),
        *("http.url", "tooltip", "function", "gen_ai.tool.definitions", "tool_count"),
        *("build_tool_router", "add_core_tool_sources", "extension_tool_executors", "dynamic_tool_runtimes"),
        *("hosted_model_tool_specs", "tool_spec_count", "tool_registry", "tool.schema"),
    ],
)
def test_what_does_not(text: str) -> None:
    assert not looks_like_a_tool(text)


@each(
    ("scope", "expected"),
    [
        ("acme.ai", True),
        ("opentelemetry.instrumentation.openai", True),
        ("my-agents", True),
        ("@acme/mcp-client", True),
        ("opentelemetry.instrumentation.fastapi", False),
        ("mail", False),
        ("io.opentelemetry.redis", False),
        ("", False),
    ],
)
def test_scopes_that_may_be_of_agents(scope: str, expected: bool) -> None:
    assert looks_like_gen_ai(scope) is expected


def test_long_scopes_are_not_kept() -> None:
    tracemalloc.start()
    try:
        assert not any(looks_like_gen_ai(f"{number}" + "x" * 100_000) for number in range(100))
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_unread_are_spans_that_only_look_so_and_tools_without_a_name() -> None:
    trace = build.trace(
        [
            {"id": 1, "name": "turn", "attributes": {"gen_ai.operation.name": "invoke_agent"}},
            {"id": 2, "name": "step", "parent": 1, "unread_keys": ["acme.args", "acme.tool"]},
            {"id": 3, "name": "find", "parent": 1, "attributes": {"tool.name": "find"}},
            {"id": 4, "name": "work", "parent": 1, "attributes": {"gen_ai.operation.name": "execute_tool"}},
            {"id": 5, "name": "GET", "parent": 1, "attributes": {"error.type": "500"}},
        ]
    )
    extraction = extract(trace)
    assert extraction.unread_tool_spans == [span_id(2), span_id(4)]
    assert [keys_of(span) for span in unread_spans(extraction)] == [
        ["acme.args", "acme.tool"],
        ["gen_ai.operation.name"],
    ]
    assert [call.name for call in extraction.calls] == ["find"]
    nameless = trace.spans[[span.span_id.hex() for span in trace.spans].index(span_id(4))]
    assert extraction.unread == [UnreadWork(span_id(4), nameless.start_ns, "tool span without a name", nameless.scope)]


def test_steps_of_calls_that_are_read_are_none_of_them() -> None:
    """As Codex writes them: functions of the program are spans, and those of calls alone have what a call is."""
    own = ["busy_ns", "code.module.name", "target"]
    call = {"id": 3, "name": "dispatch_tool_call", "parent": 29, "attributes": {"tool.name": "find"}}
    spans = [
        {"id": 1, "name": "turn", "attributes": {"acme.model": "m", "acme.usage.tokens": 3}, "at": [0, 100]},
        *({"id": n, "name": "f", "parent": n - 1 if n > 20 else 1, "attributes": {"line": 1}} for n in range(20, 30)),
        {"id": 2, "name": "handle_tool_call", "parent": 1, "unread_keys": own},
        {"id": 4, "name": "tool_dispatch.lock", "parent": 1, "unread_keys": own},
        {"id": 5, "name": "step", "parent": 1, "unread_keys": ["acme.tool"]},
        {"id": 6, "name": "run_tool", "parent": 1, "unread_keys": own, "scope": "another"},
    ]
    without_call = extract(build.trace(spans))
    assert without_call.unread_tool_spans == [span_id(2), span_id(4), span_id(5), span_id(6)]
    assert [work.why for work in without_call.unread] == ["model span of no known dialect"]
    with_call = extract(build.trace([*spans, call]))
    assert with_call.unread_tool_spans == [span_id(5), span_id(6)]
    assert [work.why for work in with_call.unread] == []


@each(
    ("tags", "unread"),
    [(["Tool.run()"], 1), (["nightly", "tool call"], 1), (["tool-team"], 0), (["tools"], 0), ("tool", 0)],
)
def test_a_tag_that_says_that_a_tool_is_run_makes_unread_work_of_a_span(tags: object, unread: int) -> None:
    model = {"id": 1, "name": "Driver.run()", "attributes": {"acme.model": "m", "acme.usage.total_tokens": 7}}
    store = {"id": 2, "name": "Store.try_run()", "attributes": {"tags": tags}}
    extraction = extract(build.trace([model, store]))
    assert extraction.calls == []
    assert extraction.unread_tool_spans == [span_id(2)] * unread


def test_functions_of_which_nothing_says_whether_a_model_asked_for_them_are_unread_work() -> None:
    """As NeMo Agent Toolkit writes them; a function around another one is the agent's, or a tool's."""
    said = {"openinference.span.kind": "CHAIN", "nat.span.kind": "FUNCTION"}

    def function(number: int, parent: int, name: str) -> dict[str, Any]:
        own = {**said, "nat.function.name": name, "input.value": "{}", "output.value": "1"}
        return {"id": number, "parent": parent, "name": name, "at": [number, 99 - number], "attributes": own}

    spans = [function(1, 0, "<workflow>"), function(2, 1, "find_parts"), function(3, 1, "report")]
    chain = function(4, 1, "format")
    chain["attributes"]["nat.span.kind"] = "SPAN"
    found = extract(build.trace([*spans, chain]))
    assert [(work.span_id, work.why) for work in found.unread] == [
        (span_id(number), "function that may be a tool") for number in (2, 3)
    ]
    assert extract(build.trace([*spans, _chat(4, answered=ANSWER, parent=1, at=[1, 2])])).unread == []


def test_a_span_that_a_dialect_reads_is_none_of_them() -> None:
    trace = build.trace([{"id": 1, "attributes": {"tool.name": "find"}, "unread_keys": ["tool.name"]}])
    assert extract(trace).unread_tool_spans == []


@each(
    ("spans", "scopes"),
    [
        ([{"id": 1, "scope": "a", "attributes": {"gen_ai.operation.name": "chat"}}], ["a"]),
        ([{"id": 1, "scope": "acme.llm"}, {"id": 2, "parent": 1, "scope": "http"}], ["acme.llm"]),
        ([{"id": 1, "scope": "acme.llm"}, {"id": 2, "parent": 1, "attributes": {"tool.name": "find"}}], []),
        ([{"id": 1, "scope": "http"}], []),
        ([{"id": 1, "scope": "acme.llm", "attributes": {"gen_ai.operation.name": "create_agent"}}], []),
        ([{"id": 1, "scope": "acme.mcp", "attributes": {"mcp.method.name": "initialize"}}], []),
    ],
    ids=["a model call that is read", "only a name", "a call was read", "no agents at all", "an agent was made", "MCP"],
)
def test_scopes_of_models_and_agents_are_silent_when_no_call_is_read(
    spans: list[dict[str, Any]], scopes: list[str]
) -> None:
    assert extract(build.trace(spans)).silent_scopes == scopes


_CHAT = {"gen_ai.operation.name": "chat"}
_SAYS_TOOLS = {**_CHAT, "gen_ai.response.finish_reasons": ["tool_calls"], "acme.input": "{}"}
_TEXT = '[{"role": "assistant", "content": "I look."}]'
_ANSWERS = {**_CHAT, "gen_ai.output.messages": _TEXT}


@each(
    ("spans", "unread"),
    [
        # A model's content that is no message, in words of a dialect, of none, and in an event.
        ([{"id": 1, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.output.messages": '["?"]'}}], "messages"),
        ([{"id": 1, "attributes": {"acme.kind": "llm", "acme.output": '{"said": ["?"]}'}}], "messages"),
        ([{"id": 1, "attributes": {"acme.kind": "llm"}, "events": [{"acme.output": {"body": '["?"]'}}]}], "messages"),
        # Calls are announced and nowhere shown, by a model call that shows content, or beside one.
        ([{"id": 1, "attributes": _SAYS_TOOLS}, {"id": 2, "attributes": _ANSWERS}], "calls announced"),
        (
            [{"id": 1, "attributes": {**_CHAT, "acme.stop_reason": "tool_use"}}, {"id": 2, "attributes": _ANSWERS}],
            "calls announced",
        ),
        ([{"id": 1, "attributes": {**_SAYS_TOOLS, "gen_ai.output.messages": _TEXT}}], "calls announced"),
        ([{"id": 1, "attributes": {**_SAYS_TOOLS, "gen_ai.input.messages": _TEXT}}], "calls announced"),
        ([{"id": 1, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.tool.call.id": "c1"}}], "calls announced"),
        # A model that no dialect knows.
        ([{"id": 1, "attributes": {"acme.model": "m", "acme.usage.tokens": 3}}], "model span"),
        # A tool without a name beside a model's work.
        (
            [
                {"id": 1, "attributes": {"gen_ai.operation.name": "chat"}},
                {"id": 2, "name": "run tool", "attributes": {"acme.kind": "tool", "acme.input": "{}"}},
            ],
            "tool span without",
        ),
        # Content that was not recorded, or is text alone, calls that are shown, and work of another kind.
        ([{"id": 1, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}}], ""),
        ([{"id": 1, "attributes": {"openinference.span.kind": "LLM", "output.value": "Hello."}}], ""),
        ([{"id": 1, "attributes": _SAYS_TOOLS}], ""),
        ([{"id": 1, "attributes": {**_SAYS_TOOLS, "gen_ai.response.finish_reasons": ["stop"]}}], ""),
        ([{"id": 1, "attributes": {**_SAYS_TOOLS, "gen_ai.response.finish_reasons": ["MALFORMED_FUNCTION_CALL"]}}], ""),
        (
            [
                {"id": 1, "attributes": {**_SAYS_TOOLS, "gen_ai.output.messages": _TEXT}},
                {"id": 2, "attributes": {"tool.name": "find"}},
            ],
            "",
        ),
        ([{"id": 1, "attributes": {"acme.kind": "embedding", "acme.model": "m", "acme.usage.tokens": 3}}], ""),
        ([{"id": 1, "attributes": {"acme.kind": "guardrail", "acme.output": '{"ok": [1]}'}}], ""),
        ([{"id": 1, "attributes": {"room.type": "chat", "room.name": "lobby"}}], ""),
        ([{"id": 1, "attributes": {"car.model": "estate", "car.output": '{"kW": [1]}'}}], ""),
    ],
)
def test_work_that_could_not_be_read(spans: list[dict[str, Any]], unread: str) -> None:
    found = [work.why for work in extract(build.trace(spans)).unread]
    assert [why.startswith(unread) for why in found] == ([True] if unread else []), found


@each(
    "work",
    [
        {"acme.model": "m", "acme.usage.tokens": 3},
        {"acme.kind": "tool", "acme.input": "{}"},
        {"function.name": "search", "function.arguments": "{}"},
    ],
    ids=["a model of no known dialect", "a tool without a name", "what looks like a call"],
)
@each("root", [{"name": "autogen process booking"}, {"attributes": {"mcp.method.name": "sampling/createMessage"}}])
def test_work_that_could_not_be_read_is_that_of_a_run_also_where_the_root_only_prepares(
    root: dict[str, Any], work: dict[str, Any]
) -> None:
    found = extract(build.trace([{"id": 1, **root}, {"id": 2, "parent": 1, "name": "run tool", "attributes": work}]))
    assert found.unread or found.unread_tool_spans
    assert [run.span_id for run in found.runs] == [span_id(1)]


def _chat(number: int, asked: str = "", answered: str = "", **more: Any) -> dict[str, Any]:
    """A model call that was given some messages and put out others, as JSON."""
    messages = {"gen_ai.input.messages": asked, "gen_ai.output.messages": answered}
    shown = {key: f"[{value}]" for key, value in messages.items() if value}
    return {"id": number, "attributes": {"gen_ai.operation.name": "chat"} | shown | more.pop("attributes", {}), **more}


USER = '{"role": "user", "parts": [{"type": "text", "content": "?"}]}'
CALL = '{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "find", "arguments": {}}]}'
ANSWER = '{"role": "assistant", "parts": [{"type": "text", "content": "1"}]}'
UNREADABLE: dict[str, Any] = {"attributes": {"input.messages": '{"turns": ["ChatMessage(role=user)"]}'}}


@each(
    ("spans", "unread"),
    [
        ([_chat(1)], []),
        ([_chat(1, events=[{"gen_ai.content.completion": {"gen_ai.completion": "called"}}])], [1]),
        ([_chat(1, events=[{"gen_ai.content.completion": {"gen_ai.completion": ""}}])], []),
        ([_chat(1, events=[{"exception": {"exception.message": "no quota"}}])], []),
        ([_chat(1, **UNREADABLE)], [1]),
        # A span within it shows the same model call.
        ([_chat(1, at=[0, 9], **UNREADABLE), _chat(2, answered=CALL, parent=1, at=[1, 8])], []),
        # The next model call is given no other call than those that are known, or one that nothing else shows.
        ([_chat(1, **UNREADABLE), _chat(2, asked=USER, answered=CALL)], []),
        ([_chat(1, **UNREADABLE), _chat(2, asked=f"{USER}, {CALL}", answered=ANSWER)], [1]),
    ],
)
def test_a_model_call_whose_messages_cannot_be_read_is_unread_unless_another_shows_them(
    spans: list[dict[str, Any]], unread: list[int]
) -> None:
    found = extract(build.trace(spans))
    assert [work.span_id for work in found.unread if work.why == "messages not readable"] == [*map(span_id, unread)]


def test_each_span_that_was_not_read_says_why_and_what_would_have_it_read() -> None:
    spans = [
        {"id": 1, "name": "turn", "attributes": {"gen_ai.operation.name": "invoke_agent"}},
        {"id": 2, "name": "step", "parent": 1, "unread_keys": ["acme.tool"]},
        {"id": 3, "name": "work", "parent": 1, "attributes": {"gen_ai.operation.name": "execute_tool"}},
        {
            "id": 4,
            "name": "chat",
            "parent": 1,
            "attributes": {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ["stop"]},
        },
    ]
    found = spans_not_read(extract(build.trace(spans)))
    assert [(span.name, span.keys) for span in found] == [("step", ["acme.tool"]), ("work", ["gen_ai.operation.name"])]
    assert all(span.why in span.sentence and span.advice for span in found)


@each("why", list(get_args(WhyUnread)))
def test_no_cause_is_without_its_words(why: WhyUnread) -> None:
    trace = build.trace([{"id": 1, "name": "step"}])
    work = UnreadWork(span_id(1), 0, why, "acme")
    (found,) = spans_not_read(Extraction(trace, [], [], unread=[work]))
    assert found.reason in work.sentence
    assert found.advice


def test_what_a_model_was_told_that_it_may_call_is_no_content() -> None:
    asked = {
        "spring.ai.model.request.tool.names": '["find", "pay"]',
        "acme.request.tools": '[{"name": "find"}]',
    }
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    assert extract(build.trace([{"id": 1, "name": "chat m", "attributes": chat | asked}])).unread == []


def test_a_span_that_counts_the_use_of_a_model_is_no_unread_model_call() -> None:
    used = {"acme.usage.kind": "model_call", "gen_ai.response.model": "m", "gen_ai.usage.input_tokens": 20}
    span = {"id": 1, "name": "record"}
    assert extract(build.trace([span | {"attributes": used | {"acme.span.type": "llm"}}])).unread != []
    assert extract(build.trace([span | {"attributes": used | {"acme.span.type": "usage"}}])).unread == []
