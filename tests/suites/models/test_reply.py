"""What models really write, and how it is read."""

import json
from typing import Any

from build import each
from suites.build.scripted_models import calling, completion, saying
from tracegrade.suites.models.reply import (
    AS_OBJECT,
    IN_NAME,
    IN_TEXT,
    TWICE_ENCODED,
    UNREADABLE,
    Reply,
    read_reply,
)

TOOLS = ["get_weather"]
PARIS = {"city": "Paris"}
WHOLE = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
OTHER = '{"name": "get_weather", "parameters": {"city": "Rome"}}'


def read(message: dict[str, Any]) -> Reply:
    return read_reply(completion(message).body, TOOLS)


def with_call(name: Any, arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}]}


def test_calls_come_in_their_order_with_ids() -> None:
    reply = read_reply(calling(("get_weather", {"city": "Paris"}), ("other", {})).body, TOOLS)
    assert [(call.id, call.name, call.arguments, call.repaired) for call in reply.calls] == [
        ("call_0", "get_weather", PARIS, ""),
        ("call_1", "other", {}, ""),
    ]
    assert reply.finish_reason == "tool_calls"


@each(
    ("message", "name", "arguments", "repaired"),
    [
        (with_call("get_weather", {"city": "Paris"}), "get_weather", PARIS, AS_OBJECT),
        (with_call("get_weather", '"{\\"city\\": \\"Paris\\"}"'), "get_weather", PARIS, TWICE_ENCODED),
        (with_call("get_weather", None), "get_weather", {}, ""),
        (with_call("get_weather", "null"), "get_weather", {}, ""),
        (with_call("get_weather", "city=Paris"), "get_weather", {}, UNREADABLE),
        (with_call("get_weather", "[1]"), "get_weather", {}, UNREADABLE),
        (with_call(WHOLE, ""), "get_weather", PARIS, IN_NAME),
        (with_call(OTHER, "{}"), "get_weather", {"city": "Rome"}, IN_NAME),
        (with_call(OTHER, '{"city": "Paris"}'), "get_weather", PARIS, IN_NAME),
        (with_call('{"name": "get_wea', ""), '{"name": "get_wea', {}, ""),
        (with_call('{"city": "Paris"}', ""), '{"city": "Paris"}', {}, ""),
        (with_call(json.loads(WHOLE), ""), "get_weather", PARIS, IN_NAME),
        ({"function_call": {"name": "get_weather", "arguments": "{}"}}, "get_weather", {}, ""),
        ({"content": WHOLE}, "get_weather", PARIS, IN_TEXT),
        ({"content": 'Sure! ```json\n{"name": "get_weather"}\n```'}, "get_weather", {}, IN_TEXT),
        ({"content": '{"x": {"name": "f", "parameters": {"a": 1}}}'}, "f", {"a": 1}, IN_TEXT),
        ({"content": '{"name": "get_weather", "input": {"city": "Paris"}}'}, "get_weather", PARIS, IN_TEXT),
        ({"content": [{"type": "text", "text": '{"name": "f", "arguments": {}}'}]}, "f", {}, IN_TEXT),
    ],
)  # fmt: skip
def test_one_call_is_read(message: dict[str, Any], name: str, arguments: Any, repaired: str) -> None:
    (call,) = read(message).calls
    assert (call.name, call.arguments, call.repaired) == (name, arguments, repaired)


FORMS = {
    "input": '{"name": "get_weather", "input": {"city": "Paris"}}',
    "args": '{"name": "get_weather", "args": {"city": "Paris"}}',
    "arguments as text": '{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}',
    "of OpenAI": json.dumps({"type": "function", "function": {"name": "get_weather", "arguments": json.dumps(PARIS)}}),
    "of OpenAI without a type": '{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}',
    "list": f"[{WHOLE}]",
    "list of OpenAI": f'[{{"type": "function", "function": {WHOLE}}}]',
    "tool_calls": f'{{"tool_calls": [{{"function": {WHOLE}}}]}}',
    "fence": f"```json\n{WHOLE}\n```",
    "fence without a language": f"```\n[{WHOLE}]\n```",
    "tag": f"<tool_call>\n{WHOLE}\n</tool_call>",
    "open tag": f"<tool_call>{WHOLE}",
}  # fmt: skip


def test_each_form_is_read_in_the_name_and_in_the_text() -> None:
    read_so = {
        form: [[(call.name, call.arguments, call.repaired) for call in read(message).calls] for message in messages]
        for form, written in FORMS.items()
        for messages in [(with_call(written, "{}"), {"content": written}, {"content": f"Sure: {written} Done."})]
    }
    assert read_so == {form: [[("get_weather", PARIS, how)] for how in (IN_NAME, IN_TEXT, IN_TEXT)] for form in FORMS}


@each("between", ["", "\n", "</tool_call><tool_call>", "\n```\n```json\n", ", "])
def test_several_calls_keep_their_order_and_have_ids_of_their_own(between: str) -> None:
    calls = [
        [(call.id, call.arguments) for call in read(message).calls]
        for message in (with_call(WHOLE + between + OTHER, "{}"), {"content": WHOLE + between + OTHER})
    ]
    assert calls == [
        [("c1", PARIS), ("c1-2", {"city": "Rome"})],
        [("call_0", PARIS), ("call_1", {"city": "Rome"})],
    ]


def test_a_text_has_many_calls_and_only_the_first_may_be_of_a_tool_that_is_not_declared() -> None:
    undeclared = '{"name": "f", "arguments": {}}'
    of_openai = '{"type": "function", "function": {"name": "get_weather", "arguments": "{}"}}'
    text = undeclared + undeclared + f'{{"tool_calls": [{", ".join([of_openai] * 60)}]}}'
    assert [call.name for call in read({"content": text}).calls] == ["f", *["get_weather"] * 60]
    assert read({"content": '[{"function": {"name": "f", "arguments": "{}"}}]'}).calls == []


def test_arguments_that_cannot_be_read_are_said_also_of_a_call_in_a_name() -> None:
    (call,) = read(with_call('{"name": "get_weather", "arguments": "city=Paris"}', "{}")).calls
    assert (call.arguments, call.repaired, call.unreadable) == ({}, IN_NAME, "city=Paris")


@each("text", ["Hello", '{"name": "Paris"}', '{"name": ', "{" * 60 + '{"name": "get_weather"}', ""])
def test_a_text_that_is_no_call_stays_a_text(text: str) -> None:
    reply = read({"content": text})
    assert (reply.calls, reply.text) == ([], text)


def test_without_tools_no_text_is_a_call() -> None:
    assert read_reply(saying('{"name": "get_weather"}').body, ()).calls == []


def test_a_refusal_is_what_the_model_said() -> None:
    reply = read({"content": None, "refusal": "I cannot help with that."})
    assert (reply.calls, reply.text, reply.refusal) == ([], "", "I cannot help with that.")


@each("usage", [None, [], {}, {"prompt_tokens": "many"}, {"prompt_tokens": True}])
def test_tokens_that_are_not_said_are_not_known(usage: Any) -> None:
    assert read_reply({**saying("hi").body, "usage": usage}, ()).tokens is None


def test_cached_tokens_are_a_part_of_the_input() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert read_reply({**saying("hi").body, "usage": usage}, ()).tokens == (9, 2, 11, 4, 0)
