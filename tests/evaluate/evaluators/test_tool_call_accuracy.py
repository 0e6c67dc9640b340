from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from build import each, score
from tracegrade.evaluate.compare.score_band import score_band
from tracegrade.evaluate.errors import EvaluatorError


def _reference(*calls: Any) -> dict[str, Any]:
    return {"reference_tool_calls": [{"name": name, "args": args} for name, args in calls]}


@each(
    ("reference", "actual", "precision", "recall", "f1"),
    [
        ([("a", {"x": 1})], [("a", {"x": 1.0})], 1.0, 1.0, 1.0),
        ([("a", {"x": 1})], [("a", {"x": 1, "y": 2})], 0.0, 0.0, 0.0),
        ([("a", {}), ("b", {})], [("b", {}), ("a", {})], 1.0, 1.0, 1.0),
        ([("a", {})], [("a", {}), "b", "c"], 1 / 3, 1.0, 0.5),  # 2 * 1/3 / (4/3)
        ([("a", {}), ("b", {}), ("c", {}), ("d", {})], ["a"], 1.0, 0.25, 0.4),  # 2 * 1/4 / (5/4)
        ([("a", {})], ["a", "a"], 0.5, 1.0, 2 / 3),
        ([("a", None)], ["a"], 1.0, 1.0, 1.0),
        ([("a", {"x": None})], ["a"], 0.0, 0.0, 0.0),
        ([("a", {})], [], 0.0, 0.0, 0.0),
        ([("a", {"x": {"$regex": "^O"}})], [("a", {"x": "OK"})], 1.0, 1.0, 1.0),
    ],
)
def test_strict_compares_arguments_whole(
    reference: Any, actual: Any, precision: float, recall: float, f1: float
) -> None:
    found = score("tool-call-accuracy", _reference(*reference), actual)
    assert found.score == pytest.approx(f1)
    assert found.details["precision"] == pytest.approx(precision)
    assert found.details["recall"] == pytest.approx(recall)


@each(
    ("reference", "actual", "threshold", "matched"),
    [
        ([("a", {"x": 1, "y": 2})], [("a", {"x": 1, "y": 0, "z": 3})], 0.5, [True]),  # 1 of 2
        ([("a", {"x": 1, "y": 2})], [("a", {"x": 1})], 0.51, [False]),
        ([("a", {})], [("a", {"x": 1})], 0.5, [True]),
        ([("a", {})], [("a", {"x": 1})], 0.6, [False]),
        ([("a", {"x": 1})], [("a", {"x": 2})], 0.0, [False]),  # what does not fit at all is never taken
        ([("a", {"x": None})], [("a", {"x": None})], 1.0, [True]),
        # a call below the threshold leaves the reference to a later one
        ([("a", {"x": 1, "y": 2})], [("a", {"x": 1}), ("a", {"x": 1, "y": 2})], 0.8, [False, True]),
        # each takes its best
        (
            [("a", {"x": 1, "y": 1}), ("a", {"x": 1, "y": 2})],
            [("a", {"x": 1, "y": 2}), ("a", {"x": 1, "y": 1})],
            1.0,
            [True, True],
        ),
        # not the best assignment: the first call takes {x: 1, y: 2}, which the second needs
        (
            [("a", {"x": 1, "y": 2}), ("a", {"x": 1, "z": 3})],
            [("a", {"x": 1}), ("a", {"x": 9, "y": 2})],
            0.5,
            [True, False],
        ),
    ],
)
def test_flexible_takes_the_share_of_reference_arguments(
    reference: Any, actual: Any, threshold: float, matched: list[bool]
) -> None:
    settings = {"mode": "FLEXIBLE", "argument_match_threshold": threshold}
    found = score("tool-call-accuracy", _reference(*reference), actual, **settings)
    assert found.details["matched"] == matched
    assert found.details["true_positives"] == sum(matched)


@each(
    ("reference", "settings", "matched"),
    [
        ([{"x": 1, "y": 2}, {"x": 1, "z": 3}], {}, 1),  # the first call takes {x: 1, y: 2}, which the second needs
        ([{"x": 1, "y": 2}, {"x": 1, "z": 3}], {"pairing": "best"}, 2),
        ([{"x": 1, "y": {"$gte": 2}}, {"x": 1, "z": 3}], {}, 2),
        ([{"x": 1, "y": {"$gte": 2}}, {"x": 1, "z": 3}], {"pairing": "first"}, 1),
        ([{"x": 1, "z": 3}, {"x": 1, "y": 2}], {"pairing": "positional"}, 2),
        ([{"x": 1, "y": 2}, {"x": 1, "z": 3}], {"pairing": "positional"}, 1),
    ],
)
def test_which_reference_a_call_takes(reference: Any, settings: Any, matched: int) -> None:
    made = [("a", {"x": 1}), ("a", {"x": 9, "y": 2})]
    flexible = {"mode": "flexible", "argument_match_threshold": 0.5}
    found = score("tool-call-accuracy", _reference(*(("a", args) for args in reference)), made, **flexible, **settings)
    assert found.details["true_positives"] == matched


@each("criteria", [None, {}, {"reference_tool_calls": None}, {"reference_tool_calls": []}])
@each("calls", [[], ["a"]])
def test_without_a_reference_nothing_is_scored(criteria: Any, calls: Any) -> None:
    found = score("tool-call-accuracy", criteria, calls)
    assert found.score is None
    assert found.explanation == "There are no reference calls, so there is nothing to score."


def test_the_justification_names_what_differs() -> None:
    found = score("tool-call-accuracy", _reference(("a", {"x": 1}), ("b", {})), [("a", {"x": 2}), "z"])
    assert found.details == {
        "true_positives": 0,
        "precision": 0.0,
        "recall": 0.0,
        "matched": [False, False],
        "band": "poor",
        "differences": [{"call": "a_0", "path": "args.x", "problem": "different", "expected": 1, "found": 2}],
    }
    assert found.explanation == (
        "0 of 2 calls match the 2 reference calls; missing: b; mismatched: a args.x (different)."
    )


def test_arguments_where_none_are_asked_for_are_named() -> None:
    found = score("tool-call-accuracy", _reference(("a", {})), [("a", {"x": 1})], mode="flexible")
    assert found.details["differences"] == [{"call": "a_0", "path": "args.x", "problem": "unexpected", "found": 1}]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "fuzzy"}, "mode: expected 'strict' or 'flexible', found 'fuzzy'"),
        ({"argument_match_threshold": 1.5}, "argument_match_threshold: "),
        ({"threshhold": 1}, "unknown key 'threshhold'"),
    ],
)
def test_wrong_settings_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(EvaluatorError, match=message) as error:
        score("tool-call-accuracy", _reference(), [], **settings)
    assert error.value.type == "invalid_config"


@given(st.floats(0, 1))
def test_bands_cover_every_score(value: float) -> None:
    lower = {"excellent": 0.9, "good": 0.7, "moderate": 0.5, "poor": 0.0}[score_band(value)]
    upper = {"excellent": 1.1, "good": 0.9, "moderate": 0.7, "poor": 0.5}[score_band(value)]
    assert lower <= value < upper


_CALLS = st.lists(
    st.tuples(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xy"), st.integers(0, 1), max_size=2)), max_size=4
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_CALLS.filter(bool), _CALLS, st.sampled_from(["strict", "flexible"]))
def test_calls_as_expected_one_by_one_are_aligned_as_any_are(reference: Any, further: Any, mode: str) -> None:
    criteria = {"reference_tool_calls": [{"name": name, "args": args} for name, args in reference]}
    made = [(name, {**args, "z": 0} if mode == "flexible" and args else args) for name, args in reference]
    whole = score("tool-call-accuracy", criteria, [*made, *further], mode=mode)
    # With a call before them that fits nothing, the calls are no longer compared one by one.
    shifted = score("tool-call-accuracy", criteria, ["other", *made, *further], mode=mode)
    assert whole.details["true_positives"] == shifted.details["true_positives"] == len(reference)
    assert [False, *whole.details["matched"]] == shifted.details["matched"]
    assert (whole.score == 1.0) is (not further)
