from typing import Any

import pytest

from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.expected import Difference, LiteralValue, differences
from tracegrade.evaluate.matchers import LATER_MATCHERS, MAX_DEPTH, MatcherError, compile_expected, compile_object
from tracegrade.evaluate.work import Work


@pytest.mark.parametrize(
    ("criterion", "actual", "matches"),
    [
        ({"$regex": "^ORD-[0-9]+$"}, "ORD-17", True),
        ({"$regex": "[0-9]+"}, "order 17 of today", True),  # found anywhere
        ({"$regex": "^ord"}, "ORD-17", False),
        ({"$regex": "(?i)^ord"}, "ORD-17", True),
        ({"$regex": "^42$"}, 42, True),
        ({"$regex": "^1.5$"}, 1.5, True),
        ({"$regex": "^true$"}, True, True),
        ({"$regex": "null"}, None, False),
        ({"$regex": "a"}, ["a"], False),
        ({"$regex": ".*"}, {}, False),
        ({"$regex": "^日本$"}, "日本", True),
        ({"$regex": "^.$"}, "\ud800", True),  # a lone surrogate is a character like any other
        ({"a": {"$regex": "^x"}, "b": 1}, {"a": "xy", "b": 1.0}, True),
        ({"a": {"$regex": "^x"}, "b": 1}, {"a": "xy"}, False),
        ({"a": {"$regex": "^x"}}, {"a": "xy", "b": 1}, False),  # nested objects are compared whole
        ([1, {"$regex": "^x"}], [1, "xy"], True),
        ([1, {"$regex": "^x"}], [1, "xy", 2], False),
        ([{"$regex": "^x"}], {"0": "x"}, False),
        ({"$literal": {"$regex": "a"}}, {"$regex": "a"}, True),
        ({"$literal": {"$regex": "a"}}, "a", False),
        ({"$literal": "a", "$regex": "b"}, "a", False),  # several keys: all hold
        ({"$literal": "ab", "$regex": "b"}, "ab", True),
        ({}, {}, True),
        ({}, {"a": 1}, False),
    ],
)
def test_a_criterion_matches(criterion: Any, actual: Any, matches: bool) -> None:
    assert compile_expected(criterion).matches(actual, Work()) is matches


def test_without_matchers_everything_is_literal() -> None:
    criterion = {"a": {"$regex": "x"}, "$gte": 1}
    assert compile_expected(criterion, matchers=False).matches(criterion, Work())


@pytest.mark.parametrize(
    ("criterion", "path", "message"),
    [
        ({"a": [{"$regex": "x", "b": 1}]}, ("a", 0), "stands beside 'b'"),
        ({"$regx": "x"}, ("$regx",), r"no matcher '\$regx'; did you mean '\$regex'\?"),
        ({"a": {"$regex": "("}}, ("a", "$regex"), r"RE2 refuses the regular expression '\('"),
        ({"$regex": "(?=a)"}, ("$regex",), "RE2 refuses"),  # look-ahead is not linear
        ({"$regex": "\ud800"}, ("$regex",), "RE2 refuses"),
        ({"$regex": "((a{100}){100}){100}"}, ("$regex",), "RE2 refuses"),  # larger than its memory bound
        ({"$regex": 7}, ("$regex",), "expected a regular expression as text, found 7"),
    ],
)
def test_a_wrong_criterion_is_refused_with_its_place(criterion: Any, path: Any, message: str) -> None:
    with pytest.raises(MatcherError, match=message) as error:
        compile_expected(criterion)
    assert error.value.path == path


@pytest.mark.parametrize("word", sorted(LATER_MATCHERS))
def test_matchers_of_later_versions_are_refused(word: str) -> None:
    with pytest.raises(MatcherError, match=rf"matcher '\{word}' is not in this version, which has"):
        compile_expected({"price": {word: 1}})


def test_nesting_is_bounded() -> None:
    criterion: Any = 1
    for _ in range(MAX_DEPTH):
        criterion = [criterion]
    assert compile_expected(criterion).matches(criterion, Work())
    with pytest.raises(MatcherError, match="nested more than 64 deep"):
        compile_expected([criterion])


def test_a_criterion_without_matchers_is_one_literal() -> None:
    assert isinstance(compile_expected({"a": [1, {"b": 2}]}), LiteralValue)


@pytest.mark.parametrize("value", [[1], "x", None, {"$regex": "a"}])
def test_arguments_are_an_object(value: Any) -> None:
    with pytest.raises(MatcherError, match="expected an object of argument names"):
        compile_object(value)


def test_arguments_named_with_a_dollar_are_written_as_a_literal() -> None:
    assert compile_object({"$literal": {"$filter": 1}}).matches({"$filter": 1}, Work())


def test_differences_are_placed() -> None:
    criterion = compile_expected({"a": {"b": [1, 2, {"c": 3}]}, "d": {"$regex": "^x"}, "e": 5, "same": {"x": 1}})
    actual = {"a": {"b": [1, 0], "n": None}, "d": "y", "same": {"x": 1.0}, "f": 6}
    assert list(differences(criterion, actual, Work())) == [
        Difference(("a", "b", 1), "different", 2, 0),
        Difference(("a", "b", 2), "missing", {"c": 3}),
        Difference(("a", "n"), "unexpected", found=None),
        Difference(("d",), "different", {"$regex": "^x"}, "y"),
        Difference(("e",), "missing", 5),
        Difference(("f",), "unexpected", found=6),
    ]


def test_further_members_are_no_difference_when_only_a_part_is_expected() -> None:
    criterion = compile_object({"a": {"b": 1}})
    found = list(differences(criterion, {"a": {"b": 1, "c": 2}, "d": 3}, Work(), partly=True))
    assert found == [Difference(("a", "c"), "unexpected", found=2)]


def test_matching_costs_work() -> None:
    with pytest.raises(EvaluatorError, match="steps"):
        compile_expected({"$regex": "x"}).matches("y" * 1000, Work(10))
