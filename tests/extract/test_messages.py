import json
from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from tracegrade.extract.messages import read_message, read_messages

TEXT = {"type": "text", "content": "hello"}
CALL = {"type": "tool_call", "id": "call_1", "name": "search", "arguments": {"q": 1}}
OF_MESSAGE: dict[str, list[Any]] = {
    "role": [None, "", "tool"],
    "content": [None, "beside", [TEXT]],
    "tool_calls": [[{"id": "call_3", "function": {"name": "beside", "arguments": "{}"}}]],
    "parts": [None, {}, [], ["bare"], [TEXT, CALL], [CALL, CALL]],
}
OF_PART: dict[str, list[Any]] = {
    "type": [None, "text", "tool_call", "tool_use", "reasoning", []],
    "content": [None, "", 1],
    "text": ["other"],
    "id": [None, "", "None", "unknown", 7],
    "tool_call_id": ["call_2"],
    "name": [None, "", 1],
    "arguments": [None, "", "{}", 2**53],
    "input": [{"from": "input"}],
    "function": [{"name": "inner", "arguments": "{}"}],
}


def changes(of: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """No change, every change of one member, and every change of two."""
    yield {}
    for count in (1, 2):
        for keys in combinations(of, count):
            for values in product(*(of[key] for key in keys)):
                yield dict(zip(keys, values, strict=True))


def test_plain_messages_are_read_as_all_others_are() -> None:
    for part in (TEXT, CALL):
        for of_part in changes(OF_PART):
            plain = {"role": "assistant", "parts": [{**part, **of_part}]}
            for of_message in changes(OF_MESSAGE) if len(of_part) < 2 else [{}]:
                message: dict[str, Any] = {**plain, **of_message}
                assert read_messages([message]) == [read_message(message, 0)], message


def test_a_call_and_a_text_are_read_from_the_conventions_shape() -> None:
    user, asking = read_messages(
        json.dumps([{"role": "user", "parts": [TEXT]}, {"role": "assistant", "parts": [CALL], "finish_reason": "stop"}])
    )
    assert (user.role, user.text, user.calls) == ("user", "hello", ())
    assert [tuple(found) for found in asking.calls] == [("search", "call_1", {"q": 1}, "1/0")]


def test_a_function_response_is_read_as_the_api_of_gemini_means_it() -> None:
    responses: dict[str, Any] = {
        "result": {"result": {"output": 1}},
        "output": {"output": [1]},
        "error": {"error": "closed"},
        "whole": {"error": None, "open": True},
    }
    parts = [{"function_response": {"id": name, "name": "f", "response": given}} for name, given in responses.items()]
    (message,) = read_messages([{"role": "user", "parts": parts}])
    assert [tuple(result)[:3] for result in message.results] == [
        ("result", {"output": 1}, False),
        ("output", [1], False),
        ("error", "closed", True),
        ("whole", {"error": None, "open": True}, False),
    ]
