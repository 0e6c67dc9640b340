from typing import Any

import build
from build import span_id
from tracegrade.extract.across import fold_across
from tracegrade.extract.extract import extract
from tracegrade.model.trace import Trace


def test_calls_that_a_second_instrumentation_shows_in_another_trace_are_marked() -> None:
    def calls(scope: str, trace_number: int, offset_ms: int, chat: bool) -> Trace:
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
        tool["gen_ai.tool.call.arguments"] = '{"q": 1}'
        spans: list[dict[str, Any]] = [
            {"id": 1, "scope": scope, "at": [0, 100], "name": "root"},
            {"id": 2, "parent": 1, "scope": scope, "at": [10 + offset_ms, 20 + offset_ms], "attributes": tool},
            {"id": 3, "parent": 1, "scope": scope, "at": [50 + offset_ms, 60], "attributes": tool},
        ]
        if chat:
            model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
            spans.append({"id": 4, "parent": 1, "scope": scope, "at": [1, 2], "attributes": model})
        return build.trace(spans, trace_number.to_bytes(16, "big"))

    first, second = extract(calls("one", 1, 0, False)), extract(calls("two", 2, 1, True))
    unrelated = extract(calls("one", 3, 30, False))
    fold_across([first, second, unrelated])
    stays = second.trace.trace_id.hex()
    assert [call.duplicate_of for call in first.calls] == [f"{stays}/{span_id(2)}", f"{stays}/{span_id(3)}"]
    assert [call.duplicate_of for call in (*second.calls, *unrelated.calls)] == [None] * 4


def test_calls_without_shown_arguments_are_told_by_their_id() -> None:
    def trace(scope: str, number: int, call_ids: list[str | None]) -> Trace:
        spans: list[dict[str, Any]] = []
        for place, call_id in enumerate(call_ids):
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
            if call_id is not None:
                attributes["gen_ai.tool.call.id"] = call_id
            spans.append({"id": place + 1, "scope": scope, "at": [10, 20], "attributes": attributes})
        return build.trace(spans, number.to_bytes(16, "big"))

    first, second = extract(trace("one", 1, ["c1", "c2", None])), extract(trace("two", 2, ["c2", "c1", None]))
    fold_across([first, second])
    stays = first.trace.trace_id.hex()
    assert [call.duplicate_of for call in first.calls] == [None] * 3
    found = {call.span_id: call.duplicate_of for call in second.calls}
    assert found == {span_id(1): f"{stays}/{span_id(2)}", span_id(2): f"{stays}/{span_id(1)}", span_id(3): None}


def test_equal_arguments_under_two_ids_are_two_calls() -> None:
    def trace(scope: str, number: int, call_id: str) -> Trace:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "find",
            "gen_ai.tool.call.id": call_id,
        }
        attributes["gen_ai.tool.call.arguments"] = '{"q": 1}'
        return build.trace([{"id": 1, "scope": scope, "attributes": attributes}], number.to_bytes(16, "big"))

    extractions = [extract(trace("one", 1, "c1")), extract(trace("two", 2, "c2"))]
    fold_across(extractions)
    assert [extraction.calls[0].duplicate_of for extraction in extractions] == [None, None]


def test_an_mcp_servers_own_trace_adds_no_call_to_its_callers() -> None:
    call = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "mcp.method.name": "tools/call"}
    agent = [
        {"id": 1, "attributes": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}},
        {"id": 2, "parent": 1, "kind": "client", "attributes": call},
    ]
    served = [{"id": 3, "kind": "server", "attributes": call}]
    extractions = [extract(build.trace(agent)), extract(build.trace(served, bytes(15) + b"\x02"))]
    fold_across(extractions)
    assert [len(extraction.calls) for extraction in extractions] == [1, 0]


def test_a_call_read_from_messages_is_that_of_a_span_in_another_trace() -> None:
    """One instrumentation writes no tool span for an agent that is called as a tool."""
    asked = '[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"ask","arguments":{}}]}]'
    answered = '[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"yes"}]}]'

    def trace(scope: str, number: int, offset_ms: int, *, is_by_span: bool) -> Trace:
        span: dict[str, Any] = {"scope": scope, "attributes": {"gen_ai.operation.name": "chat"}}
        first = {**span, "id": 1, "at": [offset_ms, offset_ms + 5]}
        first["attributes"] = {**span["attributes"], "gen_ai.output.messages": asked}
        second = {**span, "id": 2, "at": [offset_ms + 30, offset_ms + 40]}
        second["attributes"] = {**span["attributes"], "gen_ai.input.messages": answered}
        root = {"id": 9, "scope": scope, "at": [offset_ms, offset_ms + 40], "name": "root"}
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ask", "gen_ai.tool.call.id": "c1"}
        below = (
            [{"id": 3, "scope": scope, "at": [offset_ms + 6, offset_ms + 20], "attributes": tool}]
            if is_by_span
            else [first, second]
        )
        return build.trace([root, *({**one, "parent": 9} for one in below)], number.to_bytes(16, "big"))

    by_messages, by_span = extract(trace("one", 1, 0, is_by_span=False)), extract(trace("two", 2, 1, is_by_span=True))
    later = extract(trace("two", 3, 9000, is_by_span=False))
    assert [call.read_from for call in by_messages.calls] == ["message"]
    fold_across([by_messages, by_span, later])
    found = [call.duplicate_of for one in (by_messages, by_span, later) for call in one.calls]
    assert found == [f"{by_span.trace.trace_id.hex()}/{span_id(3)}", None, None]
    (stays,) = by_span.calls
    assert (stays.arguments, stays.arguments_status, stays.output, stays.output_status) == ({}, "ok", "yes", "text")


def _calls(scope: str, number: int, *spans: dict[str, Any]) -> Trace:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    return build.trace(
        [{"scope": scope, **span, "attributes": {**tool, **span["attributes"]}} for span in spans],
        number.to_bytes(16, "big"),
    )


def test_the_call_that_stays_is_given_what_its_own_trace_does_not_show() -> None:
    shown = {"gen_ai.tool.call.arguments": '{"q": 1}', "gen_ai.tool.call.result": "[2]"}
    without = extract(_calls("one", 1, {"id": 1, "at": [10, 20], "attributes": {"gen_ai.tool.call.id": "c1"}}))
    failed = {"gen_ai.tool.call.id": "c1", "error.type": "Full", **shown}
    with_content = extract(_calls("two", 2, {"id": 2, "at": [11, 19], "attributes": failed}))
    fold_across([without, with_content])
    (stays,), (gone,) = without.calls, with_content.calls
    assert (stays.duplicate_of, gone.duplicate_of) == (None, f"{without.trace.trace_id.hex()}/{span_id(1)}")
    assert (stays.arguments, stays.arguments_status) == ({"q": 1}, "ok")
    assert (stays.output, stays.output_status, stays.error) == ([2], "ok", gone.error)


def test_calls_with_one_id_are_one_where_the_first_ran_within_the_others_time() -> None:
    def traces(inner_at: list[int], arguments: str) -> list[str | None]:
        outer = {"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": '{"q": 1}'}
        inner = {"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": arguments}
        extractions = [
            extract(_calls("one", 1, {"id": 1, "at": [10, 200], "attributes": outer})),
            extract(_calls("two", 2, {"id": 2, "at": inner_at, "attributes": inner})),
        ]
        fold_across(extractions)
        return [call.duplicate_of and "other" for extraction in extractions for call in extraction.calls]

    assert traces([50, 120], '{"q": 1}') == [None, "other"]
    assert traces([50, 260], '{"q": 1}') == [None, None]
    assert traces([50, 120], '{"q": 2}') == [None, None]
