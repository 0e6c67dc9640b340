from typing import Any

import pytest

from build import call, each, score
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.registry import EVALUATORS


def _calls(*calls: Any) -> dict[str, Any]:
    """Expected calls: names, or (name, arguments)."""
    return {"tool_calls": [call if isinstance(call, str) else {"name": call[0], "args": call[1]} for call in calls]}


@each(
    ("match", "expected", "made", "holds"),
    [
        ("exact", "abc", "abc", True),
        ("exact", "abc", "acb", False),
        ("exact", "abc", "abcd", False),
        ("exact", "abc", "ab", False),
        ("in_order", "abc", "xaybzc", True),
        ("in_order", "abc", "acb", False),
        ("in_order", "aab", "ab", False),
        ("any_order", "abc", "xcba", True),
        ("any_order", "aab", "aba", True),
        ("any_order", "aab", "ab", False),
        ("unordered", "abc", "cba", True),
        ("unordered", "abc", "cbax", False),
        ("unordered", "aab", "abb", False),
        ("subset", "abc", "ca", True),
        ("subset", "abc", "aa", False),
        ("subset", "abc", "", True),
        ("strict", "ab", "abc", False),
        ("superset", "ab", "cba", True),
        # nothing expected: what the words say
        ("exact", "", "", True),
        ("exact", "", "a", False),
        ("in_order", "", "a", True),
        ("any_order", "", "a", True),
        ("unordered", "", "a", False),
        ("subset", "", "a", False),
        ("in_order", "a", "", False),
    ],
)
def test_which_sequences_count(match: str, expected: str, made: str, holds: bool) -> None:
    found = score("trajectory", _calls(*expected), list(made), match=match)
    assert found.score == float(holds)
    assert score("trajectory", _calls(*expected), list(made), match=match, negate=True).score == float(not holds)


@each(
    ("match", "expected", "made", "recall", "precision", "f1"),
    [
        ("in_order", "abcd", "dabc", 3 / 4, 3 / 4, 3 / 4),  # a b c in order: 3 of 4 and of 4
        ("in_order", "ab", "axbx", 1.0, 1 / 2, 2 / 3),  # 2 * 1/2 / (3/2)
        ("any_order", "abc", "cx", 1 / 3, 1 / 2, 2 / 5),  # 2 * 1/6 / (5/6)
        ("exact", "abcd", "axcd", 3 / 4, 3 / 4, 3 / 4),  # three positions agree
        ("exact", "ab", "b", 0.0, 0.0, 0.0),
        ("subset", "abc", "ax", 1 / 3, 1 / 2, 2 / 5),
        ("in_order", "", "", 1.0, 1.0, 1.0),
        ("in_order", "", "a", 0.0, 0.0, 0.0),
        ("any_order", "a", "", 0.0, 0.0, 0.0),
    ],
)
def test_which_number_comes_of_it(
    match: str, expected: str, made: str, recall: float, precision: float, f1: float
) -> None:
    for name, value in (("recall", recall), ("precision", precision), ("f1", f1)):
        assert score("trajectory", _calls(*expected), list(made), match=match, score=name).score == pytest.approx(value)


@each(
    ("args", "expected", "actual", "holds", "share"),
    [
        ("exact", {"x": 1, "y": 2}, {"y": 2, "x": 1.0}, True, 1.0),
        ("exact", {"x": 1, "y": 2}, {"x": 1}, False, 1 / 2),  # x of x, y
        ("exact", {"x": 1}, {"x": 1, "y": 2}, False, 1 / 2),
        ("exact", {"x": 1}, {"y": 1}, False, 0.0),
        ("exact", {"f": {"p": 1, "q": 2}}, {"f": {"p": 1, "q": 3}}, False, 1 / 2),  # f counts by its own share
        ("exact", {"x": True}, {"x": 1}, False, 0.0),
        ("exact", {"x": 2**70 + 1}, {"x": 2**70}, False, 0.0),
        ("exact", {}, {}, True, 1.0),
        ("superset", {"x": 1}, {"x": 1, "y": 2}, True, 1.0),
        ("superset", {"x": 1, "y": 2}, {"x": 1, "z": 3}, False, 1 / 2),
        ("superset", {}, {"x": 1}, True, 1.0),
        ("subset", {"x": 1, "y": 2}, {"x": 1}, True, 1.0),
        ("subset", {"x": 1}, {"x": 1, "y": 2}, False, 1 / 2),  # x of x, y
        ("subset", {"x": 1}, {}, True, 1.0),
        ("ignore", {"x": 1}, {"x": 2}, True, 1.0),
    ],
)
def test_which_arguments_count(args: str, expected: Any, actual: Any, holds: bool, share: float) -> None:
    made = [("a", actual)]
    assert score("trajectory", _calls(("a", expected)), made, args=args).score == float(holds)
    found = score("trajectory", _calls(("a", expected)), made, args=args, call_credit="fractional", score="recall")
    assert found.score == pytest.approx(share)
    for match in ("exact", "in_order", "unordered"):
        settings = {"match": match, "args": args, "call_credit": "fractional", "score": "precision"}
        assert score("trajectory", _calls(("a", expected)), made, **settings).score == pytest.approx(share)


@pytest.mark.parametrize(("threshold", "value"), [(0.5, 1.0), (0.51, 0.0), (0.0, 1.0)])
def test_a_call_counts_whole_from_a_threshold(threshold: float, value: float) -> None:
    settings = {"args": "superset", "call_credit": {"threshold": threshold}, "score": "recall"}
    assert score("trajectory", _calls(("a", {"x": 1, "y": 2})), [("a", {"x": 1})], **settings).score == value
    # what does not fit at all is worth nothing, at any threshold
    assert score("trajectory", _calls(("a", {"x": 1})), [("a", {"x": 2})], **settings).score == 0.0


@each(
    ("settings", "expected", "actual", "holds"),
    [
        ({"keys": ["f.p"]}, {"f": {"p": 1, "q": 2}}, {"f": {"p": 1, "q": 9}, "z": 0}, True),
        ({"keys": ["f.p"]}, {"f": {"p": 1}}, {"f": {"p": 2}}, False),
        ({"keys": ["x"]}, {"x": 1}, {}, False),
        ({"keys": ["x"]}, {"y": 1}, {"y": 2}, True),  # x is on neither side
        ({"ignore_keys": ["request_*"]}, {"q": "a"}, {"q": "a", "request_id": "r1"}, True),
        ({"ignore_keys": ["meta.*"]}, {"meta": {"a": 1}}, {"meta": {"b": 2}}, True),
        ({"ignore_keys": ["meta.*"]}, {"q": 1}, {"q": 2}, False),
        ({"defaults": {"limit": 10}}, {"q": 1}, {"q": 1, "limit": 10}, True),
        ({"defaults": {"limit": 10}}, {"q": 1, "limit": 10}, {"q": 1}, True),
        ({"defaults": {"limit": 10}}, {"q": 1}, {"q": 1, "limit": 20}, False),
        ({"defaults": {"limit": 10}, "args": "superset"}, {"limit": 10}, {}, True),
        ({"defaults": {"limit": 10}, "args": "superset"}, {}, {"limit": 20}, True),
        ({"tools": {"a": {"args": "ignore"}}}, {"x": 1}, {"x": 9}, True),
        ({"tools": {"b": {"args": "ignore"}}}, {"x": 1}, {"x": 9}, False),
        ({"args": "ignore", "tools": {"a": {"args": "exact", "keys": ["x"]}}}, {"x": 1}, {"x": 9}, False),
        ({}, {"c": {"$regex": "^P"}}, {"c": "Paris"}, True),
    ],
)
def test_how_arguments_are_narrowed_and_compared(settings: Any, expected: Any, actual: Any, holds: bool) -> None:
    assert score("trajectory", _calls(("a", expected)), [("a", actual)], **settings).score == float(holds)


@each(
    ("values", "expected", "actual", "holds"),
    [
        ("case_insensitive", {"c": "PARIS", "n": 1}, {"c": "paris", "n": 1}, True),
        ("case_insensitive", {"c": ["PARIS"]}, {"c": ["paris"]}, True),
        ({"a.c": "regex"}, {"c": "^P", "d": "^P"}, {"c": "Paris", "d": "^P"}, True),
        ({"a.c": "exact", "*": "case_insensitive"}, {"c": "A", "d": "B"}, {"c": "A", "d": "b"}, True),
        ({"a.c": "exact", "*": "case_insensitive"}, {"c": "A", "d": "B"}, {"c": "a", "d": "b"}, False),
        ({"$numeric_tolerance": {"epsilon": 0.1}}, {"t": 1.0}, {"t": 1.05}, True),
    ],
)
def test_how_values_are_compared(values: Any, expected: Any, actual: Any, holds: bool) -> None:
    criteria = {**_calls(("a", expected), "b"), "values": values, "forbidden": ["x"]}
    assert score("trajectory", criteria, [("a", actual), "b"]).score == float(holds)


@each(
    ("names", "expected", "made", "holds"),
    [
        ("exact", "a", "A", False),
        ("exact", ["a", "b"], "b", True),
        ("exact", "a*", "ab", False),
        ("case_insensitive", "Search", "search", True),
        ("glob", "search_*", "search_web", True),
        ("glob", ["x", "search_?"], "search_web", False),
        ("normalized", "Web Search", "Web_Search", True),
        ("normalized", "math.add", "mathadd", True),
        ("normalized", "天气", "航班", False),
        ("normalized", "a" * 70, "a" * 64, True),
    ],
)
def test_how_names_are_compared(names: str, expected: Any, made: str, holds: bool) -> None:
    assert score("trajectory", {"tool_calls": [{"name": expected}]}, [made], names=names).score == float(holds)


@each(
    ("pairing", "expected", "made", "recall"),
    [
        # first: {x: 1} takes the first call, and {x: 1, y: 2} has none left that fits
        ("first", [{"x": 1}, {"x": 1, "y": 2}], [{"x": 1, "y": 2}, {"x": 1}], 0.5),
        ("best", [{"x": 1}, {"x": 1, "y": 2}], [{"x": 1, "y": 2}, {"x": 1}], 1.0),
        ("first", [{"x": 1}, {"x": 2}], [{"x": 2}, {"x": 1}], 1.0),
        ("positional", [{"x": 1}, {"x": 2}], [{"x": 2}, {"x": 1}], 0.0),
        ("positional", [{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 2}], 1.0),
    ],
)
def test_which_call_is_compared_with_which(pairing: str, expected: Any, made: Any, recall: float) -> None:
    criteria = _calls(*(("a", args) for args in expected))
    settings = {"match": "any_order", "args": "superset", "score": "recall", "pairing": pairing}
    assert score("trajectory", criteria, [("a", args) for args in made], **settings).score == recall


def test_the_better_fit_is_taken_where_calls_fit_in_part() -> None:
    settings = {"match": "any_order", "args": "exact", "score": "recall", "call_credit": "fractional"}
    made = [("a", {"x": 1, "y": 9}), ("a", {"x": 1, "y": 2})]
    assert score("trajectory", _calls(("a", {"x": 1, "y": 2})), made, **settings).score == 1.0


@each(("occurrence", "holds"), [("first", False), ("last", True), (1, True), (5, False), ("any", 1)])
def test_one_call_of_a_tool_can_be_looked_at(occurrence: Any, holds: bool) -> None:
    made = [("a", {"x": 1}), "b", ("a", {"x": 2})]
    assert score("trajectory", _calls(("a", {"x": 2})), made, occurrence=occurrence).score == float(holds)


def test_calls_made_together_take_their_best_order() -> None:
    made = [call("b", {"x": 1}, batch=1), call("a", {"x": 1}, batch=1), call("c", {})]
    expected = _calls(("a", {"x": 1}), ("b", {"x": 1}), ("c", {}))
    for match in ("exact", "in_order"):
        assert score("trajectory", expected, made, match=match).score == 1.0
        assert score("trajectory", expected, made, match=match, concurrency="sequential").score == 0.0


def test_outputs_count_where_they_are_compared() -> None:
    criteria = {"tool_calls": [{"name": "a", "output": {"status": "ok"}}]}
    made = [call("a", output='{"status": "ok"}'), call("a", output="no")]
    assert score("trajectory", criteria, made[1:]).score == 1.0
    assert score("trajectory", criteria, made[1:], outputs="exact").score == 0.0
    assert score("trajectory", criteria, made, outputs="exact").score == 1.0


def test_failed_calls_can_be_left_out() -> None:
    made = [call("a", failed=True), call("a")]
    assert score("trajectory", _calls("a"), made, match="exact").score == 0.0
    assert score("trajectory", _calls("a"), made, match="exact", include_failed=False).score == 1.0


@each(
    ("conditions", "made", "holds"),
    [
        ({"counts": {"a": ["<=", 1]}}, "a", True),
        ({"counts": {"a": ["<=", 1]}}, "aa", False),
        ({"calls": ["<=", 2]}, "ab", True),
        ({"calls": ["<=", 2]}, "abc", False),
        ({"failed_calls": ["=", 0]}, "a", True),
        ({"steps": ["=", 2]}, "ab", True),
        ({"required": ["a", ["b", "c"]]}, "abc", True),
        ({"required": [["b", "c"]]}, "bac", False),
        ({"required": [["a", "a", "b"]]}, "aaab", True),
        ({"forbidden": ["x"]}, "ab", True),
        ({"forbidden": ["x"]}, "ax", False),
        ({"forbidden": [["b", "c"]]}, "abc", False),
        ({"forbidden": [["b", "c"]]}, "bac", True),
        ({"allowed": ["a", "b"]}, "ab", True),
        ({"allowed": ["a"]}, "ab", False),
        ({"allowed": []}, "", True),
        ({"allowed": []}, "a", False),
    ],
)
def test_conditions_hold_or_the_score_is_0(conditions: Any, made: str, holds: bool) -> None:
    found = score("trajectory", conditions, list(made))
    assert found.score == float(holds)
    assert bool(found.details.get("broken")) is not holds
    both = {**conditions, **_calls(*made[:1])}
    assert score("trajectory", both, list(made), score="recall").score == float(holds)


def test_globs_work_in_conditions() -> None:
    assert score("trajectory", {"forbidden": ["delete_*"]}, ["delete_all"], names="glob").score == 0.0
    assert score("trajectory", {"counts": {"search_*": [">=", 2]}}, ["search_a", "search_b"], names="glob").score == 1.0


@each(
    ("efficiency", "made", "value"),
    [
        ({"redundancy_penalty": 0.2}, [("a", {"x": 1}), ("a", {"x": 1})], 0.8),
        ({"redundancy_penalty": 0.2}, [("a", {"x": 1}), ("a", {"x": 2})], 1.0),
        ({"redundancy_penalty": 0.2, "redundant": "same_name"}, [("a", {"x": 1}), ("a", {"x": 2})], 0.8),
        ({"optimal_calls": 2}, ["a", "b", "c", "d"], 0.5),  # 2 of 4
        ({"optimal_calls": 2}, ["a"], 1.0),
        ({"detour_penalty": 0.1, "prerequisites": ["b"]}, ["b", "x", "y", "a"], 0.8),  # x and y
        ({"detour_penalty": 0.9}, ["x", "y", "a"], 0.0),
    ],
)
def test_calls_that_were_not_needed_cost(efficiency: Any, made: Any, value: float) -> None:
    assert score("trajectory", {}, made, efficiency=efficiency).score == pytest.approx(value)


def test_an_empty_expectation_can_be_skipped_or_refused() -> None:
    assert score("trajectory", _calls(), ["a"], on_empty="skip").score is None
    with pytest.raises(EvaluatorError, match="expected at least one call") as error:
        score("trajectory", _calls(), ["a"], on_empty="error")
    assert error.value.type == "invalid_criteria"
    assert score("trajectory", {}, ["a"]).score is None


def test_the_justification_shows_every_expected_call() -> None:
    made = [("a", {"x": 2}), ("z", {})]
    found = score("trajectory", _calls(("a", {"x": 1}), "b"), made, match="unordered")
    assert found.details["explained_tool_calls"] == {
        "a_0": 'Actual: {"x": 2}, Expected: {"x": 1}, Score: 0.0',
        "b_0": "Actual: not called, Expected: any, Score: 0.0",
    }
    assert found.details["differences"] == [
        {"call": "a_0", "path": "args.x", "problem": "different", "expected": 1, "found": 2}
    ]
    assert found.details["unexpected_tool_calls"] == ["a", "z"]
    assert found.explanation == (
        "0 of 2 expected calls were made (unordered); missing: b; mismatched: a args.x (different); unexpected: a, z."
    )


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({}, "nothing is expected"),
        ({"tool_calls": [], "on_empty": "skip"}, "on_empty is skip"),
    ],
)
def test_what_can_never_score_is_said_at_load(item: dict[str, Any], message: str) -> None:
    evaluator = EVALUATORS["trajectory"]
    criteria = evaluator.read_criteria({key: value for key, value in item.items() if key == "tool_calls"})
    settings = evaluator.read_settings({key: value for key, value in item.items() if key != "tool_calls"})
    assert message in (evaluator.never_scores(criteria, settings) or "")


@pytest.mark.parametrize("settings", [{"ignore_keys": ["["]}, {"keys": [".x"]}, {"match": "x"}])
def test_settings_that_mean_nothing_are_refused(settings: Any) -> None:
    with pytest.raises(EvaluatorError) as error:
        EVALUATORS["trajectory"].read_settings(settings)
    assert error.value.type == "invalid_config"


@each("match", ["exact", "in_order", "any_order", "unordered", "subset"])
def test_many_calls_are_compared_within_the_bound_of_work(match: str) -> None:
    expected = _calls(*((f"t{i % 7}", {"x": i % 5}) for i in range(50)))
    made = [(f"t{i % 9}", {"x": i % 4}) for i in range(10_000)]
    assert 0 <= score("trajectory", expected, made, match=match, score="f1").score <= 1


@pytest.mark.long
def test_work_is_bounded() -> None:
    calls = [("a", {"x": i}) for i in range(3_000)]
    with pytest.raises(EvaluatorError, match="steps") as error:
        score("trajectory", _calls(*calls), calls[::-1], match="any_order")
    assert error.value.type == "work_bound"


@each(
    ("settings", "matched", "f1", "expected"),
    [
        ({}, 2, 4 / 7, 0),
        ({"score": "recall"}, 2, 4 / 7, 2 / 3),
        ({"call_credit": "fractional", "score": "f1"}, 2.5, 5 / 7, 5 / 7),
        ({"match": "exact"}, 2, 4 / 7, 0),
        ({"match": "unordered"}, 2, 4 / 7, 0),
        ({"match": "subset"}, 2, 4 / 7, 0),
    ],
)
def test_the_worked_example_of_the_comparison(
    settings: dict[str, Any], matched: float, f1: float, expected: float
) -> None:
    criteria = {"tool_calls": ["find", {"name": "book", "args": {"city": "Rome", "nights": 2}}, "pay"]}
    made = [("find", {}), ("book", {"city": "Rome", "nights": 3}), ("pay", {}), ("find", {})]
    found = score("trajectory", criteria, made, **settings)
    assert found.score == pytest.approx(expected)
    assert (found.details["matched"], found.details["f1"]) == (matched, pytest.approx(f1))
