import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import each
from tracegrade.evaluate.criteria.compile import compile_object
from tracegrade.evaluate.criteria.expected import LiteralValue
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.json_values import (
    decoded,
    decoded_container,
    excerpt,
    json_equal,
    plain_comparison,
    scalar_text,
)
from tracegrade.evaluate.work import Work

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
# Few enough that two of them are often equal, or nearly so.
small_values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 2, "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=3,
)


@each(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (1, True, False),
        (0, False, False),
        (1.0, True, False),
        (True, True, True),
        ("1", 1, False),
        (None, "", False),
        (None, 0, False),
        (None, False, False),
        (None, None, True),
        ("", "", True),
        (0.1 + 0.2, 0.3, False),
        (2**53 + 1, 2**53, False),
        (2**53 + 1, float(2**53), False),  # a comparison through floats would call them equal
        (10**400, 10**400, True),
        (10**400, 1e308, False),
        ("é", "e\u0301", False),  # the same letter to a reader, other characters
        ("a", "a ", False),
        ({}, [], False),
        ({}, None, False),
        ([], [None], False),
        ({"a": None}, {}, False),
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        ([1, 2], [2, 1], False),
        ([{"a": [True]}], [{"a": [1]}], False),
    ],
)
def test_values_are_equal_as_json(left: Any, right: Any, equal: bool) -> None:
    assert json_equal(left, right, Work()) is equal
    assert json_equal(right, left, Work()) is equal
    assert LiteralValue(left).matches(right, Work()) is equal
    assert LiteralValue(right).matches(left, Work()) is equal


@given(small_values, small_values)
def test_criteria_compare_as_json(left: Any, right: Any) -> None:
    assert LiteralValue(left).matches(right, Work()) is json_equal(left, right, Work())


small_objects = st.dictionaries(st.sampled_from("ab"), small_values, max_size=2)


@given(small_objects, small_objects)
def test_arguments_compare_as_json_whole_and_member_by_member(left: Any, right: Any) -> None:
    expected = compile_object(left, matchers=False)
    held = [key in right and json_equal(value, right[key], Work()) for key, value in left.items()]
    assert expected.matches(right, Work()) is json_equal(left, right, Work())
    assert expected.matches_within(right, Work()) is all(held)
    assert expected.matched_members(right, Work()) == sum(held)


def test_criteria_of_any_depth_compare_as_json() -> None:
    deep: Any = json.loads("[" * 300 + "]" * 300)
    assert LiteralValue(deep).matches(json.loads(json.dumps(deep)), Work())
    assert plain_comparison(deep) is None  # ``==`` is not trusted with it


@given(json_values)
def test_a_value_equals_its_own_json(value: Any) -> None:
    assert json_equal(value, json.loads(json.dumps(value)), Work())


def test_depth_is_no_limit() -> None:
    left: Any = 1
    right: Any = 1
    for _ in range(50_000):
        left, right = [left], [right]
    assert json_equal(left, right, Work())
    assert excerpt(left, 10) == "[" * 10 + "…"


def test_work_is_counted_and_bounded() -> None:
    work = Work(1000)
    json_equal([1] * 100, [1] * 100, work)
    assert work.left == 1000 - 101
    with pytest.raises(EvaluatorError, match="more than 50 steps") as error:
        json_equal([1] * 100, [1] * 100, Work(50))
    assert error.value.type == "work_bound"


def test_long_texts_cost_by_their_length() -> None:
    work = Work(100)
    json_equal("x" * 50_000, "x" * 50_000, work)
    assert work.left == 100 - 1 - 48
    work = Work(100)
    json_equal("x" * 50_000, "x" * 49_999, work)
    assert work.left == 99  # other lengths need no comparison


@each(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        (" [1]", [1]),
        ('{"a": 1', None),
        ('{"a": NaN}', None),
        ("7", None),
        ('"x"', None),
        ("plain", None),
        ("", None),
        ("[" * 100_000, None),
    ],
)
def test_only_containers_are_decoded(text: str, value: Any) -> None:
    assert decoded_container(text) == value


def test_text_that_is_no_json_stays_text() -> None:
    assert decoded("7") == 7
    assert decoded("Infinity") == "Infinity"
    assert decoded("not json {") == "not json {"


@each(
    ("value", "limit", "text"),
    [
        ({"a": [1, "x", None], "b": True}, 100, '{"a": [1, "x", null], "b": true}'),
        ({}, 100, "{}"),
        ([[], {}], 100, "[[], {}]"),
        ("日本", 100, '"日本"'),
        ([1, 2, 3], 9, "[1, 2, 3]"),
        ([1, 2, 3], 8, "[1, 2, 3…"),
        ("x" * 1000, 5, '"xxxx…'),
        ({"k" * 1000: 1}, 5, '{"kkk…'),
        ([0] * 1_000_000, 6, "[0, 0,…"),
    ],
)
def test_excerpts_are_cut(value: Any, limit: int, text: str) -> None:
    assert excerpt(value, limit) == text


@given(json_values)
def test_an_uncut_excerpt_is_json(value: Any) -> None:
    assert json_equal(json.loads(excerpt(value, 100_000)), value, Work())


def test_numbers_nobody_can_print_are_shown_by_size() -> None:
    assert scalar_text(10**6000) == "an integer of 19932 bits"
