"""Values with stand-ins: the same for the same, in texts, JSON, keys and numbers, and nothing else changed."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from build import each
from tracegrade.document.problem import dotted
from tracegrade.model.json_value import JsonValue
from tracegrade.redact.json_text import is_json, rewritten
from tracegrade.redact.known import known_ids
from tracegrade.redact.redactor import Redactor
from tracegrade.sensitive.registry import all_detectors

ANN, BOB = "ann.lee@acme.io", "bob@acme.io"


def _redacted(value: JsonValue, **options: Any) -> JsonValue:
    return Redactor(all_detectors(), **options).value(value)


def test_the_same_value_gets_the_same_stand_in_wherever_it_stands() -> None:
    value: JsonValue = {
        "prompt": f"Write to {ANN} and {BOB}.",
        "arguments": json.dumps({"to": ANN, "copy": json.dumps([BOB, ANN.upper()]), ANN: 1}),
        "output": [{"sent": [ANN]}],
    }
    assert _redacted(value) == {
        "prompt": "Write to user1@example.com and user2@example.com.",
        "arguments": json.dumps(
            {
                "to": "user1@example.com",
                "copy": json.dumps(["user2@example.com", "USER1@EXAMPLE.COM"]),
                "user1@example.com": 1,
            }
        ),
        "output": [{"sent": ["user1@example.com"]}],
    }


def test_spellings_of_one_number_get_one_stand_in() -> None:
    value = ["4111 1111 1111 1111", "4111111111111111", 4111111111111111]
    assert _redacted(value) == ["4100 0000 0000 0019", "4100000000000019", 4100000000000019]


def test_a_number_is_a_telephone_number_where_its_key_says_so() -> None:
    assert _redacted({"phone": 4155552671, "order": 4155552671}) == {"phone": 4000000001, "order": 4155552671}
    assert _redacted('{"phone": [4155552671], "order": 4155552671}') == '{"phone": [4000000001], "order": 4155552671}'


def test_what_is_not_replaced_stays_byte_by_byte() -> None:
    text = '{ "total": 1.50, "big": 123456789012345678901234567890,\n "a":"\\u00e9", "to" :"ann@acme.io", "a": 1e3 }'
    assert _redacted(text) == text.replace("ann@acme.io", "user1@example.com")


def test_text_that_is_not_quite_json_is_read_as_text() -> None:
    assert _redacted('{"to": "ann@acme.io", "body": "cut o') == '{"to": "user1@example.com", "body": "cut o'
    assert _redacted("{'to': 'ann@acme.io'}") == "{'to': 'user1@example.com'}"


def test_a_stand_in_is_no_text_that_is_in_use() -> None:
    assert _redacted(f"{ANN} or user1@example.com", is_taken=lambda text: text == "user1@example.com") == (
        "user2@example.com or user1@example.com"
    )


def test_values_to_keep_stay_wherever_they_stand() -> None:
    redactor = Redactor(all_detectors(), keep={("email", ANN)})
    assert redactor.value([ANN, BOB, ANN]) == [ANN, "user1@example.com", ANN]
    assert dict(redactor.counts) == {"email": 1}


def test_it_says_how_much_was_replaced_and_where_and_no_value() -> None:
    redactor = Redactor(all_detectors())
    redactor.value({"arguments": json.dumps({"to": [ANN], BOB: {"cc": ANN}})}, ("span",))
    assert dict(redactor.counts) == {"email": 3}
    places = {dotted(place) for some in redactor.places.values() for place in some}
    assert places == {"span.arguments.to[0]", "span.arguments", "span.arguments.user2@example.com.cc"}


def test_ids_of_calls_keep_their_kind_and_short_ones_stay() -> None:
    ids = ["call_Ab3dEf7hIj", "toolu_01A09q90qw90lq917835lq9", "call_1", "1"]
    redactor = Redactor([known_ids("call_id", ids)])
    assert redactor.value([*ids, "see call_Ab3dEf7hIj, xcall_Ab3dEf7hIj"]) == [
        "call_Aa2aAa2aAb",
        "toolu_22A22a22aa22aa222222aa4",
        "call_1",
        "1",
        "see call_Aa2aAa2aAb, xcall_Ab3dEf7hIj",
    ]


_PIECES = st.sampled_from(
    [ANN, "+49 30 1234567", "4111 1111 1111 1111", "sk-abcDEF1234567890abcd", "password=hunter22", "x", " ", "1", "\n"]
)
_TEXTS = st.lists(_PIECES, max_size=4).map(" ".join)
_KEYS = st.sampled_from(["to", "password", "phone", "api_key", ANN])
_VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    _TEXTS | st.integers() | st.booleans() | st.none() | st.sampled_from([4155552671, 4111111111111111]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_KEYS, inner, max_size=3)
        | st.dictionaries(_KEYS, inner, max_size=3).map(json.dumps)
    ),
    max_leaves=6,
)


@given(_VALUES)
@example({"password": "ann.lee@acme.io  "})
@example("+49 30 1234567 4111 1111 1111 1111")
@settings(max_examples=2 * settings().max_examples)
def test_redacting_twice_changes_nothing_more(value: JsonValue) -> None:
    once = _redacted(value)
    assert _redacted(once) == once


@given(_VALUES)
def test_what_was_json_stays_json_of_the_same_shape(value: JsonValue) -> None:
    def shape(value: JsonValue) -> object:
        if isinstance(value, dict):
            return [shape(member) for member in value.values()]
        return [shape(item) for item in value] if isinstance(value, list) else type(value)

    text = json.dumps(value)
    assert shape(json.loads(str(_redacted(text)))) == shape(json.loads(text))


@given(_VALUES)
def test_json_rewritten_with_nothing_replaced_is_the_same_text(value: JsonValue) -> None:
    text = json.dumps(value, indent=2)
    if is_json(text):
        assert rewritten(text, lambda found, leaf, path: found) == text


@each("text", ["", "{", "[1,]", "plain", '{"a": 1} x', "[" * 100_000])
def test_what_is_no_json_is_known(text: str) -> None:
    assert not is_json(text)
