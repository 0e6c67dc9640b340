"""What models really write, and how it is read."""

from typing import Any

import pytest

from models.scripted import calling, completion, saying
from tracegrade.models.reply import (
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


@pytest.mark.parametrize(
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
        ({"function_call": {"name": "get_weather", "arguments": "{}"}}, "get_weather", {}, ""),
        ({"content": WHOLE}, "get_weather", PARIS, IN_TEXT),
        ({"content": 'Sure! ```json\n{"name": "get_weather"}\n```'}, "get_weather", {}, IN_TEXT),
        ({"content": '{"x": {"name": "f", "parameters": {"a": 1}}}'}, "f", {"a": 1}, IN_TEXT),
        ({"content": [{"type": "text", "text": '{"name": "f", "arguments": {}}'}]}, "f", {}, IN_TEXT),
    ],
)  # fmt: skip
def test_one_call_is_read(message: dict[str, Any], name: str, arguments: Any, repaired: str) -> None:
    (call,) = read(message).calls
    assert (call.name, call.arguments, call.repaired) == (name, arguments, repaired)


@pytest.mark.parametrize("text", ["Hello", '{"name": "Paris"}', '{"name": ', "{" * 60 + '{"name": "get_weather"}', ""])
def test_a_text_that_is_no_call_stays_a_text(text: str) -> None:
    reply = read({"content": text})
    assert (reply.calls, reply.text) == ([], text)


def test_without_tools_no_text_is_a_call() -> None:
    assert read_reply(saying('{"name": "get_weather"}').body, ()).calls == []


def test_a_refusal_is_what_the_model_said() -> None:
    reply = read({"content": None, "refusal": "I cannot help with that."})
    assert (reply.calls, reply.text, reply.refusal) == ([], "", "I cannot help with that.")


@pytest.mark.parametrize("usage", [None, [], {}, {"prompt_tokens": "many"}, {"prompt_tokens": True}])
def test_tokens_that_are_not_said_are_not_known(usage: Any) -> None:
    assert read_reply({**saying("hi").body, "usage": usage}, ()).tokens is None


def test_cached_tokens_are_a_part_of_the_input() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert read_reply({**saying("hi").body, "usage": usage}, ()).tokens == (9, 2, 11, 4, 0)
