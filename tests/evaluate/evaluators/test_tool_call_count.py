from typing import Any

import pytest

from build import each, score
from tracegrade.evaluate.errors import EvaluatorError


@each(
    ("operator", "holds"),
    [("=", "2"), ("==", "2"), ("!=", "013"), (">", "01"), ("<", "3"), (">=", "012"), ("<=", "23")],
)
@each("count", range(4))
def test_two_calls_are_compared(operator: str, holds: str, count: int) -> None:
    found = score("tool-call-count", {"tool_calls_count": {"t": [operator, count]}}, ["t", "x", "t"])
    assert found.score == float(str(count) in holds)


@each(
    ("expected", "actual", "share", "strict"),
    [
        ({"a": ["=", 2], "b": ["=", 1]}, "aa", 0.5, 0.0),
        ({"a": ["=", 1]}, "abbc", 1.0, 1.0),
        ({"a": ["=", 0]}, "b", 1.0, 1.0),
        ({"a": ["<=", 3]}, "", 1.0, 1.0),  # a trace without calls counts 0 of each
        ({"a": [">=", 1]}, "", 0.0, 0.0),
        ({"A": ["=", 1]}, "a", 0.0, 0.0),
        ({}, "", 1.0, 1.0),
        ({}, "a", 0.0, 0.0),
    ],
)
def test_the_score_is_the_share_of_counts_that_hold(expected: Any, actual: str, share: float, strict: float) -> None:
    criteria = {"tool_calls_count": expected}
    assert score("tool-call-count", criteria, list(actual)).score == share
    assert score("tool-call-count", criteria, list(actual), strict=True).score == strict


def test_every_count_is_justified_and_with_strict_the_first_that_fails() -> None:
    criteria = {"tool_calls_count": {"a": ["=", 1], "b": [">", 2], "c": ["=", 1]}}
    found = score("tool-call-count", criteria, ["a", "b"])
    assert found.details == {
        "explained_tool_calls_count": {
            "a": "Actual: 1, Expected: = 1, Score: 1.0",
            "b": "Actual: 1, Expected: > 2, Score: 0.0",
            "c": "Actual: 0, Expected: = 1, Score: 0.0",
        }
    }
    assert found.explanation == (
        "1 of 3 listed tools were called as often as expected; b was called once (expected more than 2 times), "
        "c was called 0 times (expected exactly 1 time)."
    )
    strict = score("tool-call-count", criteria, ["a", "b"], strict=True)
    assert strict.details == {"explained_tool_calls_count": {"b": "Actual: 1, Expected: > 2, Score: 0.0"}}


@each(
    ("count", "message"),
    [
        (["<>", 1], "no operator '<>'"),
        ([1, "="], "no operator 1"),
        (["=", -1], "expected a number of calls from 0, found -1"),
        (["=", True], "expected a number of calls from 0, found True"),
        (["=", 1.0], "expected a number of calls from 0, found 1.0"),
        (["="], "expected an operator and a number"),
        (3, "expected an operator and a number"),
    ],
)
def test_malformed_counts_are_refused(count: Any, message: str) -> None:
    with pytest.raises(EvaluatorError, match=message) as error:
        score("tool-call-count", {"tool_calls_count": {"t": count}}, [])
    assert error.value.type == "invalid_criteria"
