import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tracegrade.extract.messages import read_message, read_messages

SOMETHING = st.sampled_from([None, "", "x", 1, {}, {"n": 1}, []])
PART = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "tool_call", "tool_use", "reasoning", None]),
        "content": SOMETHING,
        "text": SOMETHING,
        "id": st.sampled_from([None, "", "call_1", "None", "unknown", 7]),
        "tool_call_id": st.just("call_2"),
        "name": st.sampled_from([None, "", "search"]),
        "arguments": SOMETHING,
        "input": st.just({"from": "input"}),
        "function": st.just({"name": "inner", "arguments": "{}"}),
    },
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from([None, "", "assistant", "user", "tool"]),
        "parts": st.lists(PART | SOMETHING, max_size=2) | SOMETHING,
        "content": SOMETHING,
        "tool_calls": st.just([{"id": "call_3", "function": {"name": "beside", "arguments": "{}"}}]) | SOMETHING,
    },
)


@given(st.lists(MESSAGE, max_size=3))
def test_plain_messages_are_read_as_all_others_are(messages: list[dict[str, Any]]) -> None:
    expected = [read_message(message, position) for position, message in enumerate(messages)]
    assert read_messages(messages) == expected
    assert read_messages(json.dumps(messages)) == expected


def test_a_call_and_a_text_are_read_from_the_conventions_shape() -> None:
    call = {"type": "tool_call", "id": "call_1", "name": "search", "arguments": {"q": 1}}
    text = {"type": "text", "content": "hello"}
    user, asking = read_messages(
        [{"role": "user", "parts": [text]}, {"role": "assistant", "parts": [call], "finish_reason": "tool_calls"}]
    )
    assert (user.role, user.text, user.calls) == ("user", "hello", ())
    assert [tuple(found) for found in asking.calls] == [("search", "call_1", {"q": 1}, "1/0")]
