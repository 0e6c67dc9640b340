"""ragas-tool-call-accuracy and ragas-tool-call-f1."""

from typing import Any

import pytest

from build import call, each, score
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.registry import EVALUATORS


def _references(calls: Any) -> dict[str, Any]:
    return {"reference_tool_calls": [{"name": name, "args": args} for name, args in calls]}


@each(
    ("references", "made", "strict", "any_order"),
    [
        ([], [], 1.0, 1.0),
        ([], [("a", {})], 0.0, 0.0),
        ([("a", {})], [], 0.0, 0.0),
        ([("a", {"x": 1}), ("b", {})], [("b", {}), ("a", {"x": 1})], 0.0, 1.0),
        ([("a", {})], [("a", {}), ("a", {})], 0.0, 0.0),  # another number of calls is 0 in either order
        ([("a", {"x": 1, "y": 2, "z": 3})], [("a", {"x": 1, "y": 2, "z": 0})], 2 / 3, 2 / 3),
        ([("a", {"x": 1})], [("a", {"x": 1, "y": 2})], 1.0, 1.0),
        ([("a", {})], [("a", {"x": 1})], 0.0, 0.0),  # without arguments is met without alone
        ([("a", {"x": 1})], [("a", {"x": "1"})], 1.0, 1.0),  # compared as text
        ([("a", {"x": 1})], [("a", {"x": 1.0})], 0.0, 0.0),
        ([("a", {"x": 1}), ("a", {"x": 2})], [("a", {"x": 2}), ("a", {"x": 1})], 0.0, 1.0),
        ([("a", {"x": True, "y": None})], [("a", {"x": "True", "y": "None"})], 1.0, 1.0),  # as Python prints them
        ([("a", {"x": True})], [("a", {"x": "true"})], 0.0, 0.0),
        # Sorted, a() comes before a(x=1), and a(x=a) before a(x=a, z=1): names and values in turn.
        ([("a", {}), ("a", {"y": 1})], [("a", {"x": 1}), ("a", {"y": 1})], 0.5, 0.5),
        ([("a", {"x": 1}), ("a", {})], [("a", {}), ("a", {"x": 1})], 0.0, 1.0),
        ([("a", {"x": "a"}), ("a", {"x": "a", "z": 1})], [("a", {"x": "a", "z": 2}), ("a", {"x": "b"})], 0.5, 0.5),
        ([("a", {"x": 2**70})], [("a", {"x": 2**70})], 1.0, 1.0),
        ([("a", {"x": {"$regex": "^P"}})], [("a", {"x": "Paris"})], 1.0, 1.0),
    ],
)
def test_accuracy(references: Any, made: Any, strict: float, any_order: float) -> None:
    criteria = _references(references)
    assert score("ragas-tool-call-accuracy", criteria, made).score == pytest.approx(strict)
    assert score("ragas-tool-call-accuracy", criteria, made, strict_order=False).score == pytest.approx(any_order)


@each(
    ("references", "made", "f1"),
    [
        ([], [], 0.0),
        ([("a", {})], [], 0.0),
        ([("a", {})], [("a", {})], 1.0),
        ([("a", {"x": 1})], [("a", {"x": 1.0})], 1.0),
        ([("a", {"x": 1})], [("a", {"x": "1"})], 0.0),
        ([("a", {"x": 1})], [("a", {"x": True})], 0.0),
        ([("a", {}), ("a", {})], [("a", {})], 1.0),  # repeats count once
        ([("a", {"x": 1}), ("a", {"x": True})], [("a", {"x": 1}), ("a", {"x": True})], 1.0),  # and these are none
        ([("a", {})], [("a", {}), ("a", {}), ("b", {})], 0.6667),  # 1 of 2 made, 1 of 1 expected
        ([("a", {}), ("b", {}), ("c", {})], [("c", {}), ("a", {})], 0.8),  # 2 of 2, 2 of 3
    ],
)
def test_f1(references: Any, made: Any, f1: float) -> None:
    assert score("ragas-tool-call-f1", _references(references), made).score == f1


@pytest.mark.long
def test_many_distinct_calls_stay_within_the_bound_of_work() -> None:
    made = [("a", {"x": i, "y": [i]}) for i in range(10_000)]
    assert score("ragas-tool-call-f1", _references(made[:50]), made).score == pytest.approx(0.01, abs=1e-4)


@each(
    ("made", "ends"),
    [
        ([("find", {"x": "[redacted]", "y": 1}), ("find", {"x": "a", "y": 2})], (0.0, 1.0)),  # either may be the first
        ([("find", {"x": "a", "y": 1}), ("find", {"x": "b", "y": 2})], (1.0, 1.0)),
        ([("find", {"x": "[redacted]", "y": 1}), ("pay", {"x": "a", "y": 2})], (1.0, 1.0)),
    ],
)
def test_an_argument_by_which_calls_are_sorted_leaves_open_which_are_compared(
    made: list[tuple[str, dict[str, Any]]], ends: tuple[float, float]
) -> None:
    evaluator = EVALUATORS["ragas-tool-call-accuracy"]
    criteria = evaluator.read_criteria(_references([(name, {"y": args["y"]}) for name, args in made]))
    evidence = Evidence([call(name, args) for name, args in made], redacted=True)
    found = evaluator.evaluate(evidence, criteria, evaluator.read_settings({"strict_order": False}))
    assert found.ends[:2] == ends


@each(
    ("references", "made", "ends"),
    [
        ([{}, {"x": "a"}], [None, {}], (0.5, 1.0)),  # what is not known may be the one that lacks
        ([{"x": "a"}, {}], [None, {}], (0.5, 1.0)),
        ([{"x": "a"}], [None, {"x": "a"}], (0.6667, 1.0)),  # or the same as another one
        ([{}, {"x": "a"}], [{"x": "b"}, {}], (0.5, 0.5)),
    ],
)
def test_f1_is_at_most_that_of_the_most_calls_that_may_be_expected(
    references: list[Any], made: list[Any], ends: tuple[float, float]
) -> None:
    evaluator = EVALUATORS["ragas-tool-call-f1"]
    criteria = evaluator.read_criteria(_references([("find", args) for args in references]))
    evidence = Evidence([call("find", args) for args in made])
    assert evaluator.evaluate(evidence, criteria, evaluator.read_settings({})).ends[:2] == ends
