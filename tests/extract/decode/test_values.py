"""Each row: what it shows, the attribute's value, what it stands for, and how that was read."""

import ast
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from build import each
from tracegrade.display import json_text
from tracegrade.extract.decode.values import ABSENT, MAX_NESTING, REDACTED, Decoded, call_id, canonical, decode

HUGE = 123456789012345678901234567890


@each(
    ("raw", "value", "status"),
    [
        pytest.param(None, None, "absent", id="no attribute"),
        pytest.param({"a": [1]}, {"a": [1]}, "ok", id="a structured attribute is taken as it is"),
        pytest.param(False, False, "ok", id="a typed primitive"),
        pytest.param('{"a": 1}', {"a": 1}, "ok", id="JSON text"),
        pytest.param(' {"a": 1}\n', {"a": 1}, "ok", id="white space around JSON"),
        pytest.param("42", 42, "ok", id="a number as text"),
        pytest.param('"x"', "x", "ok", id="a quoted text"),
        pytest.param('"{\\"a\\": 1}"', {"a": 1}, "repaired", id="JSON in JSON"),
        pytest.param(json.dumps(json.dumps(json.dumps([1]))), [1], "repaired", id="JSON in JSON in JSON"),
        pytest.param('"{not json"', "{not json", "truncated", id="a quoted text that looks like JSON cut off"),
        pytest.param(f'{{"n": {HUGE}}}', {"n": HUGE}, "ok", id="integers beyond 64 bits are exact"),
        pytest.param(f"[[{HUGE}]]", [[HUGE]], "ok", id="deep integers too"),
        pytest.param(str(HUGE), HUGE, "ok", id="and bare ones"),
        pytest.param('{"n": 1e30}', {"n": 1e30}, "ok", id="large floats stay floats"),
        pytest.param('{"n": NaN, "m": -Infinity}', {"n": "NaN", "m": "-Infinity"}, "repaired", id="no JSON numbers"),
        pytest.param('{"a": 1, "a": 2}', {"a": 2}, "repaired", id="the last of two members of one name"),
        pytest.param('{"a": {"b:": 1, "b:": 2}}', {"a": {"b:": 2}}, "repaired", id="deep, with a colon in the name"),
        pytest.param('{"a": "x:y:z"}', {"a": "x:y:z"}, "ok", id="colons in values are no members"),
        pytest.param('{"a": "\\ud800"}', {"a": "\ufffd"}, "repaired", id="a lone surrogate"),
        pytest.param('{"a": "x\ny"}', {"a": "x\ny"}, "repaired", id="a raw line break inside a text"),
        pytest.param("{'a': True, 'b': None}", {"a": True, "b": None}, "python_repr", id="a Python dict"),
        pytest.param("('a', {2, 1})", ["a", [1, 2]], "python_repr", id="tuples and sets become lists"),
        pytest.param("{1: b'x'}", {"1": "x"}, "python_repr", id="keys and bytes become texts"),
        pytest.param("True", True, "python_repr", id="a Python word"),
        pytest.param("1_000", "1_000", "text", id="not a number to anybody but Python"),
        pytest.param("{'a': object()}", "{'a': object()}", "text", id="calls are never evaluated"),
        pytest.param("sunny", "sunny", "text", id="text"),
        pytest.param("", "", "text", id="an empty text is not absent"),
        pytest.param("[WARN] disk full", "[WARN] disk full", "text", id="brackets of a log line"),
        pytest.param('{"a": 1} trailing', '{"a": 1} trailing', "text", id="more behind JSON"),
        pytest.param('{"a": "cut he', '{"a": "cut he', "truncated", id="cut inside a text"),
        pytest.param('{"a": tr', '{"a": tr', "truncated", id="cut inside a word"),
        pytest.param('{"a": 1,', '{"a": 1,', "truncated", id="cut behind a comma"),
        pytest.param('{"a": "\\u00', '{"a": "\\u00', "truncated", id="cut inside an escape"),
        pytest.param("{'a': [1, 'x", "{'a': [1, 'x", "truncated", id="a Python dict cut off"),
        pytest.param(f"['{'x' * 508}']", ["x" * 508], "python_repr", id="whole, whatever its length"),
        pytest.param("x" * 4096, "x" * 4096, "truncated", id="as long as a usual limit"),
        pytest.param("x" * 4097, "x" * 4097, "text", id="longer than a usual limit"),
        pytest.param("None", None, "absent", id="Python's None"),
        pytest.param("<not serializable>", None, "absent", id="a sentinel"),
        pytest.param("[redacted]", None, "redacted", id="masked"),
        pytest.param("__REDACTED__", None, "redacted", id="masked by OpenInference"),
        pytest.param("9" * 5000, "9" * 5000, "text", id="more digits than Python prints"),
        pytest.param("[" * 501 + "]" * 501, "[" * 501 + "]" * 501, "text", id="nested too deep to be stored"),
    ],
)
def test_a_value_is_read_as(raw: Any, value: Any, status: str) -> None:
    decoded = decode(raw)
    assert (decoded.value, decoded.status) == (value, status)
    assert type(decoded.value) is type(value)


def test_sentinels_are_one_object_each() -> None:
    assert decode("N/A") is ABSENT
    assert decode("<REDACTED>") is REDACTED


@each("raw", ["<not specified>", "unknown", "", None, "None", "[REDACTED]", [1], True])
def test_these_are_no_call_ids(raw: Any) -> None:
    assert call_id(raw) is None


def test_call_ids_are_texts() -> None:
    assert call_id("call_1") == "call_1"
    assert call_id(7) == "7"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_any_json_object_is_read_exactly(value: dict[str, Any]) -> None:
    assert decode(json.dumps(value)) == Decoded(value, "ok")


literal_parts = ["'a'", "'", '"', "True", "None", "true", "null", "-0", "1", "0.5", "1e400", "1_0", ",", ":", "'k': "]


@given(json_values)
def test_what_python_prints_is_read_exactly(value: Any) -> None:
    assert decode(repr({"k": value})).value == {"k": value}


@given(st.lists(st.sampled_from([*literal_parts, "[", "]", "{", "}", "(", " ", "#"]), max_size=9))
def test_a_python_literal_means_what_it_means_to_python(parts: list[str]) -> None:
    text = f"[{''.join(parts)}]"
    decoded = decode(text)
    if decoded.status == "python_repr":
        assert repr(decoded.value) == repr(_as_json(ast.literal_eval(text)))


def _as_json(literal: Any) -> Any:
    if isinstance(literal, dict):
        return {key if isinstance(key, str) else canonical(_as_json(key)): _as_json(v) for key, v in literal.items()}
    if isinstance(literal, list | tuple | set):
        items = [_as_json(item) for item in literal]
        return sorted(items, key=canonical) if isinstance(literal, set) else items
    return str(literal) if isinstance(literal, float) and not math.isfinite(literal) else literal


@given(st.text(alphabet=st.sampled_from("{}[]()'\"\\,: 01e-+.truefalsnN_bu\n\u00e9"), max_size=60))
@example('"{"')
def test_any_text_gives_a_value_that_can_be_written(text: str) -> None:
    decoded = decode(text)
    json_text(decoded.value).encode()
    if decoded.status in ("text", "truncated"):
        quoted = text
        while quoted != decoded.value:
            quoted = json.loads(quoted)


@given(json_values, st.randoms(use_true_random=False))
def test_canonical_texts_do_not_depend_on_the_order_of_members(value: Any, random: Any) -> None:
    def shuffled(item: Any) -> Any:
        if isinstance(item, dict):
            keys = list(item)
            random.shuffle(keys)
            return {key: shuffled(item[key]) for key in keys}
        return [shuffled(inner) for inner in item] if isinstance(item, list) else item

    assert canonical(shuffled(value)) == canonical(value)


@each("text", ['{"a":' * 200_000, "[" * 1_000_000, "{'" * 300_000, '"' * 1_000_001, "(" * 99_999])
def test_hostile_texts_cost_no_more_than_their_length(text: str) -> None:
    assert decode(text).status in ("text", "truncated")


def test_the_deepest_value_taken_can_be_written() -> None:
    deepest = "[" * MAX_NESTING + "]" * MAX_NESTING
    assert decode(deepest).status == "ok"
    assert json_text(decode(deepest).value) == deepest
