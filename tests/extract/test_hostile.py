"""Traces as no sender should write them: each is read as far as it can be, and says what could not."""

import json
from typing import Any

import pytest

import build
from build import each, span_id
from tracegrade.extract.decode.values import MAX_NESTING, call_id
from tracegrade.extract.extract import extract
from tracegrade.judge import judge
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

HUGE = 2**200 + 1
NUMBER = "9" * 5000


def tool(number: int = 1, parent: int | None = None, at: list[int] | None = None, **values: Any) -> dict[str, Any]:
    """An execute_tool span; `arguments` and `result` are its values."""
    known = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    written = {f"gen_ai.tool.call.{name}": value for name, value in values.items()}
    return {"id": number, "parent": parent, "at": at or [number, number + 1], "attributes": known | written}


def read(*spans: dict[str, Any]) -> list[ToolCall]:
    return extract(build.trace(list(spans))).calls


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def outcome(call_span: dict[str, Any], *evaluate: dict[str, Any]) -> tuple[str, str | None]:
    rules = RuleSet([Rule.model_validate({"id": "a-rule", "evaluate": list(evaluate)})])
    (decision,) = judge(build.trace([call_span]), rules).decisions
    return decision.kind, decision.outcome


ARGUMENTS = {"evaluator": "tool-call-args", "tool_calls": [{"name": "search", "args": {}}]}
OUTPUT = {"evaluator": "tool-call-output", "tool_outputs": [{"name": "search", "output": "x"}]}


@each(
    ("arguments", "value", "status"),
    [
        pytest.param('{"q": "pen', '{"q": "pen', "truncated", id="cut off"),
        pytest.param("{'q': 'pen', 'n': None}", {"q": "pen", "n": None}, "python_repr", id="as Python prints"),
        pytest.param(json.dumps(json.dumps({"q": 1})), {"q": 1}, "repaired", id="encoded twice"),
        pytest.param(json.dumps(json.dumps(json.dumps({"q": 1}))), {"q": 1}, "repaired", id="encoded three times"),
        pytest.param(f'{{"q": {HUGE}}}', {"q": HUGE}, "ok", id="an integer of 201 bits"),
        pytest.param('{"q": 1e400}', {"q": "1e400"}, "repaired", id="a float beyond floats"),
        pytest.param('{"q": NaN}', {"q": "NaN"}, "repaired", id="not a number"),
        pytest.param('{"q": 1, "q": 2}', {"q": 2}, "repaired", id="one key twice"),
        pytest.param('{"q": "\\udc00"}', {"q": "\ufffd"}, "repaired", id="a lone surrogate"),
        pytest.param('{"q": "a\x00b"}', {"q": "a\x00b"}, "repaired", id="a control character"),
        pytest.param('\ufeff{"q": 1}', {"q": 1}, "repaired", id="a byte order mark"),
        pytest.param("AAEC", "AAEC", "text", id="bytes, as decoding writes them"),
        pytest.param({"q": [1]}, {"q": [1]}, "ok", id="structured"),
        pytest.param([1], [1], "text", id="a list is no object"),
        pytest.param("", {}, "repaired", id="an empty text: a tool that takes nothing"),
        pytest.param("{" * 100_000, "{" * 100_000, "truncated", id="100,000 brackets"),
        pytest.param(nested(100_000), None, "text", id="100,000 levels"),
        pytest.param(
            '{"a":' * (MAX_NESTING + 1) + "1" + "}" * (MAX_NESTING + 1), None, "text", id="one level too deep"
        ),
        pytest.param(nested(MAX_NESTING), None, "ok", id="as deep as is taken"),
        pytest.param(json.dumps({"q": "x" * 10_000_000}), {"q": "x" * 10_000_000}, "ok", id="10 MB"),
    ],
)
def test_arguments_are_read_as(arguments: Any, value: Any, status: str) -> None:
    (call,) = read(tool(arguments=arguments))
    assert call.arguments_status == status
    if value is not None:
        assert call.arguments == value


def test_a_field_that_the_sender_dropped_is_absent_and_never_an_empty_object() -> None:
    trace = build.trace([tool(result="{}")])
    trace.spans[0].dropped_attributes_count = 3
    (call,) = extract(trace).calls
    assert (call.arguments, call.arguments_status) == (None, "absent")
    assert outcome(tool(result="{}"), ARGUMENTS) == ("not_evaluable", None)


@each("arguments", ['{"q": "pen', "pen", "[REDACTED]", "<not specified>", None])
def test_arguments_that_cannot_be_read_are_not_evaluable(arguments: str | None) -> None:
    span = tool(**({} if arguments is None else {"arguments": arguments}))
    assert outcome(span, ARGUMENTS) == ("not_evaluable", None)


@each("result", ['{"q": "pen', "[REDACTED]", "<not specified>", None])
def test_results_that_cannot_be_read_are_not_evaluable(result: str | None) -> None:
    span = tool(**({} if result is None else {"result": result}))
    assert outcome(span, OUTPUT) == ("not_evaluable", None)


@each(
    "key",
    [
        f"llm.output_messages.{NUMBER}.message.tool_calls.0.tool_call.function.name",
        f"llm.output_messages.0.message.tool_calls.{NUMBER}.tool_call.function.name",
        f"gen_ai.completion.{NUMBER}.tool_calls.0.name",
        f"gen_ai.completion.0.tool_calls.{NUMBER}.name",
        "llm.output_messages.-1.message.content",
        "llm.output_messages..message.",
        "llm.output_messages." + "x" * 1_000_000,
    ],
)
@each("kind", [{"openinference.span.kind": "LLM"}, {"llm.request.type": "chat"}])
def test_keys_with_impossible_numbers_say_nothing(key: str, kind: dict[str, str]) -> None:
    assert read({"id": 1, "attributes": {**kind, key: "search"}}) == []


def test_numbers_in_keys_may_be_large_missing_and_out_of_order() -> None:
    call = "message.tool_calls.0.tool_call.function.name"
    names = {f"llm.output_messages.{number}.{call}": name for number, name in ((999999999, "c"), (10, "b"), (9, "a"))}
    assert [call.name for call in read({"id": 1, "attributes": {"openinference.span.kind": "LLM", **names}})] == [
        *("a", "b", "c")
    ]


@each("raw", ['"', '"abc', '"\\"abc', '"[redacted]"', '""', '"unknown"'])
def test_quoted_call_ids_end(raw: str) -> None:
    found = call_id(raw)
    assert found is None or found.strip('"\\') == "abc" or found == raw


def test_times_that_are_zero_equal_or_reversed_keep_their_order() -> None:
    spans = [tool(3, at=[0, 0]), tool(1, at=[5, 1]), tool(2, at=[5, 5]), tool(4, at=[0, 2**40])]
    assert [call.span_id for call in read(*spans)] == [span_id(number) for number in (3, 4, 1, 2)]


@each("parents", [{1: 1, 2: 2, 3: 3}, {1: 2, 2: 1, 3: 2}, {1: 3, 2: 1, 3: 2}, {1: 9, 2: 9, 3: 9}])
def test_cycles_and_missing_parents_hide_no_call(parents: dict[int, int]) -> None:
    calls = read(*(tool(number, parent, arguments={"n": number}) for number, parent in parents.items()))
    assert [call.arguments for call in calls] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_chain_of_ten_thousand_spans_is_read() -> None:
    spans = [tool(number, number - 1 or None, arguments={"n": number}) for number in range(1, 10_001)]
    calls = read(*spans)
    assert len(calls) == 10_000
    assert calls[-1].depth == 9_999


def test_a_span_of_ten_thousand_events_and_attributes_is_read() -> None:
    span = tool(arguments="{}")
    span["attributes"] |= {f"llm.input_messages.{number}.message.content": "x" for number in range(10_000)}
    span["events"] = [{"gen_ai.choice": {"message": str(number)}} for number in range(10_000)]
    (call,) = read(span)
    assert (call.arguments, call.output) == ({}, 9_999)
