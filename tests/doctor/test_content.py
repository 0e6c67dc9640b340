"""What spans say and leave out, by who sent them."""

from typing import Any

import pytest

import build
from tracegrade.doctor.content import Content, incomplete
from tracegrade.doctor.finding import Finding
from tracegrade.extract.extract import extract
from tracegrade.model.span import Resource


def tool(number: int, **changes: Any) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find",
        "gen_ai.tool.call.arguments": '{"q": 1}',
        "gen_ai.tool.call.result": '{"found": 1}',
    }
    return {
        "id": number,
        "name": "execute_tool find",
        "attributes": attributes | changes.pop("attributes", {}),
        **changes,
    }


CHAT = {"id": 1, "name": "chat", "scope": "acme.llm", "attributes": {"gen_ai.operation.name": "chat"}}


def findings(*traces: list[dict[str, Any]], check: str) -> list[Finding]:
    content = Content()
    for number, spans in enumerate(traces, 1):
        content.add(extract(build.trace(spans, number.to_bytes(16, "big"))))
    return [finding for finding in content.findings() if finding.check == check]


def test_whole_traces_have_nothing_wrong() -> None:
    content = Content()
    spans = [{"id": 1, "attributes": AGENT}, {**CHAT, "id": 3, "parent": 1}, tool(2, parent=1, at=[1, 2])]
    content.add(extract(build.trace(spans)))
    assert {(finding.check, finding.level) for finding in content.findings()} == {
        ("unread spans", "ok"),
        ("content", "ok"),
        ("doubles", "ok"),
        ("clocks", "ok"),
    }


def test_a_sender_that_is_read_by_shape_is_named_with_what_would_make_it_certain() -> None:
    call = {
        "id": 2,
        "parent": 1,
        "scope": "acme.ai",
        "attributes": {"acme.kind": "tool", "tool_name": "find", "input": "{}"},
    }
    (finding,) = findings([CHAT, call], check="read by shape")
    assert (finding.level, finding.where) == ("note", "shop, scope acme.ai")
    assert finding.found.startswith("1 call of find in no dialect that is known")
    assert "GenAI conventions" in finding.advice
    assert [found.level for found in findings([CHAT, call], check="unread spans")] == ["ok"]


def test_unread_spans_are_named_with_an_example_and_its_keys() -> None:
    unread = {"id": 1, "name": "step", "scope": "acme", "unread_keys": ["acme.args", "acme.tool"]}
    (finding,) = findings([unread], [unread], check="unread spans")
    assert (finding.level, finding.where) == ("warning", "shop, scope acme")
    assert finding.found == (
        "2 of 2 (100%) spans are not read, such as 'step' with acme.args, acme.tool: it looks like a tool call, and no "
        "dialect reads it"
    )
    assert finding.evidence["trace_id"] == f"{1:032x}"
    assert finding.evidence["attribute_keys"] == ["acme.args", "acme.tool"]


def test_a_scope_of_models_of_which_no_span_is_read_is_noted() -> None:
    spans = [{"id": 1, "scope": "acme.llm"}, {"id": 2, "parent": 1, "scope": "http"}]
    (finding,) = findings(spans, check="unread spans")
    assert (finding.level, finding.where) == ("note", "shop, scope acme.llm")


def test_model_calls_without_any_tool_call_are_noted() -> None:
    (finding,) = findings([CHAT], [CHAT], check="no tool calls")
    assert finding.found == "2 traces with model calls or agent runs, and no tool call in any of them"
    assert findings([CHAT], [CHAT, tool(2, parent=1)], check="no tool calls") == []


AGENT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "clerk",
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "find it"}]}]',
}


def test_shares_of_content_are_said_by_service_and_agent_with_the_switch_of_the_framework() -> None:
    arguments, result = {"gen_ai.tool.call.arguments": None}, {"gen_ai.tool.call.result": None}
    whole = [{"id": 1, "attributes": AGENT}, tool(2, parent=1), tool(3, parent=1)]
    one_lacks = [
        {"id": 1, "attributes": AGENT},
        tool(2, parent=1, scope="pydantic-ai", attributes=arguments | result),
        tool(3, parent=1),
    ]
    (all_recorded,) = findings(whole, check="content")
    assert all_recorded.level == "ok"
    (found,) = findings(*[whole] * 4, one_lacks, check="content")
    assert (found.level, found.where) == ("note", "shop, agent clerk")
    assert found.found == (
        "recorded are arguments of 9 of 10 (90%) calls, results of 9 of 10 (90%) calls, prompts of 5 of 5 (100%) runs; "
        "missing: 2 not recorded"
    )
    assert found.advice.endswith("InstrumentationSettings(include_content=True)")
    (never,) = findings([{"id": 1, "attributes": AGENT}, tool(2, parent=1, attributes=arguments)], check="content")
    assert (never.level, never.evidence["arguments"]) == ("warning", {"of": 1, "lacking": 1})


@pytest.mark.parametrize(
    ("masked", "level"), [(1, "note"), (3, "warning")], ids=["a few masked", "most of them masked"]
)
def test_masked_arguments_are_worth_the_more_the_more_there_are(masked: int, level: str) -> None:
    spans = [
        tool(n, attributes={"gen_ai.tool.call.arguments": "__REDACTED__"} if n <= masked else {}) for n in range(1, 5)
    ]
    (finding,) = findings([{"id": 9, "attributes": AGENT}, *({**span, "parent": 9} for span in spans)], check="content")
    assert (finding.level, finding.evidence["arguments"]) == (level, {"of": 4, "lacking": masked})
    assert finding.found.endswith(f"missing: {masked} masked")


def test_a_call_that_two_instrumentations_show_names_the_scope_to_ignore() -> None:
    twins = [tool(1, scope="one", at=[0, 9]), tool(2, scope="two", at=[1, 9])]
    (finding,) = findings(twins, check="doubles")
    assert (finding.level, finding.evidence) == ("note", {"calls": 1, "ignore_scopes": ["two"]})


def test_a_call_in_two_traces_is_judged_twice_and_a_warning() -> None:
    (finding,) = findings([tool(1, scope="one", at=[0, 9])], [tool(2, scope="two", at=[1, 9])], check="doubles")
    assert (finding.level, finding.evidence) == ("warning", {"calls": 1, "ignore_scopes": ["two"]})
    assert finding.advice == "set traces.ignore_scopes: [two]"


def skewed(child_service: str) -> list[Finding]:
    trace = build.trace([{"id": 1, "at": [5000, 9000]}, {"id": 2, "parent": 1, "at": [1000, 2000]}])
    for span in trace.spans:
        if span.span_id[-1] == 2:
            span.resource = Resource({"service.name": child_service, "service.version": "1.2.3"})
    content = Content()
    content.add(extract(trace))
    return [finding for finding in content.findings() if finding.check == "clocks"]


def test_a_child_of_another_service_that_starts_before_its_parent_shows_a_wrong_clock() -> None:
    (finding,) = skewed("tools")
    assert (finding.level, finding.where, finding.evidence["early_s"]) == ("warning", "shop, tools", 4.0)


def test_within_one_process_it_is_no_matter_of_clocks() -> None:
    assert [finding.level for finding in skewed("shop")] == ["ok"]


def test_spans_that_end_after_they_came_show_a_clock_ahead() -> None:
    trace = build.trace([{"id": 1, "at": [0, 20_000]}])
    trace.last_received_ns = 8_000_000_000
    content = Content()
    content.add(extract(trace))
    (finding,) = [finding for finding in content.findings() if finding.check == "clocks"]
    assert (finding.where, finding.evidence) == ("shop", {"ahead_s": 12.0})


def test_incomplete_and_cut_traces_are_counted_by_service() -> None:
    traces = [build.trace([tool(1)], number.to_bytes(16, "big")) for number in range(1, 5)]
    traces[0].missing = ["root", "parent:0a"]
    traces[1].missing = ["parent:0a"]
    traces[2].cut_by = "span_cap"
    first, second = incomplete(map(extract, traces))
    assert first.found.startswith("2 of 4 (50%) traces are incomplete: 1 without their root, 1 with spans whose parent")
    assert (first.level, first.evidence["trace_id"]) == ("warning", f"{1:032x}")
    assert second.found == "1 of 4 (25%) traces were cut short by span_cap"
