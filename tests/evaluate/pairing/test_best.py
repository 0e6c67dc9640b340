"""The best pairing is as good as any: compared with all that there are, and the one shown is the earliest of these."""

import random
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import build
from build import score
from tracegrade.evaluate.compare import trajectory_comparison
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.pairing import by_name
from tracegrade.evaluate.pairing.best import WHOLE, best_pairing, in_units
from tracegrade.evaluate.pairing.by_name import TOO_MANY
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.work import Work

Shares = Sequence[Sequence[float]]


def by_trying_all(shares: Shares, calls: int) -> tuple[float, list[int | None]]:
    """The greatest sum of `shares` (by expected call and call made), and the earliest pairing that has it."""

    @cache
    def rest(row: int, used: int) -> tuple[int, tuple[int, ...]]:
        if row == len(shares):
            return 0, ()
        found = []
        for call in [*range(calls), None]:
            if call is None:
                worth, after = 0, rest(row + 1, used)
            elif used >> call & 1 or not shares[row][call]:
                continue
            else:
                worth, after = in_units(shares[row][call]), rest(row + 1, used | 1 << call)
            found.append((-worth - after[0], (calls if call is None else call, *after[1])))
        least, pairs = min(found)
        return -least, pairs

    worth, pairs = rest(0, 0)
    return worth / WHOLE, [None if call == calls else call for call in pairs]


@given(st.integers(0, 7), st.integers(0, 7), st.sampled_from([1, 2, 3, 12]), st.randoms(use_true_random=False))
def test_pairs_are_worth_most_and_the_earliest_of_those(
    rows: int, calls: int, parts: int, drawn: random.Random
) -> None:
    density = drawn.random()
    shares = [
        [drawn.randint(1, parts) / parts if drawn.random() < density else 0.0 for _ in range(calls)]
        for _ in range(rows)
    ]
    found = best_pairing([range(calls)] * rows, lambda row, call: in_units(shares[row][call]), Work())
    assert found == by_trying_all(shares, calls)[1]


X, Y = {"x": 1}, {"x": 1, "y": 2}
ARGUMENTS = [{}, X, Y, {"x": 2}, {"x": 2, "y": 2}, {"x": 1, "y": 2, "z": 3}]
LOOSE = [{"x": {"$gte": 0}}, {"x": {"$gte": 2}}, {"y": {"$any": True}}, {"x": {"$one_of": [1, 2]}, "y": 2}, *ARGUMENTS]
BEST = {"pairing": "best"}
FRACTIONAL: dict[str, Any] = {"call_credit": "fractional"}
HALF = {"call_credit": {"threshold": 0.5}}
FLEXIBLE = {"mode": "flexible", "argument_match_threshold": 0.5}
ANY = {"mode": "flexible", "argument_match_threshold": 0.0}
# The evaluator, its settings, the key of the expected calls, what of each is expected, and how they are named.
KINDS: dict[str, tuple[str, dict[str, Any], str, str, list[Any], list[Any]]] = {
    "exact": ("trajectory", {}, "tool_calls", "args", ARGUMENTS, ["a"]),
    "loose": ("trajectory", {"args": "superset"}, "tool_calls", "args", ARGUMENTS, ["a", "b"]),
    "names": ("trajectory", {"args": "ignore"}, "tool_calls", "args", [{}], ["a", "b", ["b", "a"], ["c", "b"]]),
    "globs": ("trajectory", {"args": "superset", "names": "glob"}, "tool_calls", "args", LOOSE, ["a", "?", "[bc]"]),
    "fractional": ("trajectory", FRACTIONAL, "tool_calls", "args", ARGUMENTS, ["a", ["a", "b"]]),
    "subset, fractional": ("trajectory", {**FRACTIONAL, "args": "subset"}, "tool_calls", "args", LOOSE, ["a"]),
    "threshold": ("trajectory", {**HALF, "args": "superset"}, "tool_calls", "args", LOOSE, ["a"]),
    "args": ("tool-call-args", {"subset": True}, "tool_calls", "args", LOOSE, ["a", "b"]),
    "args, literal": ("tool-call-args", {"subset": True, **BEST}, "tool_calls", "args", ARGUMENTS, ["a"]),
    "output": ("tool-call-output", {"subset": True, **BEST}, "tool_outputs", "output", LOOSE, ["a", "b"]),
    "accuracy": ("tool-call-accuracy", {**BEST, **FLEXIBLE}, "reference_tool_calls", "args", LOOSE, ["a"]),
    "accuracy, all": ("tool-call-accuracy", {**BEST, **ANY}, "reference_tool_calls", "args", LOOSE, ["a"]),
}


def judged(
    kind: str, expected: Sequence[tuple[Any, Any]], made: Sequence[tuple[str, Any]]
) -> tuple[Score, list[int | None]]:
    """The score, and the call that is paired with each expected one."""
    name, how, key, part, _, _ = KINDS[kind]
    evaluator = EVALUATORS[name]
    criteria = evaluator.read_criteria({key: [{"name": tool, part: what} for tool, what in expected]})
    read = evaluator.read_settings(how if name != "trajectory" else {"match": "any_order", "score": "recall", **how})
    evidence = Evidence([build.call(tool, args, output=args) for tool, args in made])
    score = evaluator.evaluate(evidence, criteria, read)
    assert score.pairing is not None
    return score, [*score.pairing.positions]


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_every_evaluator_pairs_as_well_as_can_be_in_whatever_order(kind: str, data: st.DataObject) -> None:
    name, _, _, _, wanted, names = KINDS[kind]
    expected = data.draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(wanted)), min_size=1, max_size=7))
    if kind == "args":
        expected.append(("a", {"x": {"$gte": 0}}))  # a matcher, so that `best` is the default
    made = data.draw(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(ARGUMENTS)), min_size=1, max_size=7))
    alone = {
        (repr(one), repr(call)): judged(kind, [one], [call])[0].score for one, call in product(expected, made)
    }  # fmt: skip
    shares = [[alone[repr(one), repr(call)] or 0.0 for call in made] for one in expected]
    most, earliest = by_trying_all(shares, len(made))
    score, pairs = judged(kind, expected, made)
    assert pairs == earliest
    of = (len(expected) + len(made)) / 2 if name == "tool-call-accuracy" else len(expected)
    assert score.score == pytest.approx(most / of, abs=1e-12)
    again, _ = judged(kind, data.draw(st.permutations(expected)), made)
    assert again.score == score.score


@pytest.mark.parametrize("name", ["trajectory", "tool-call-args", "tool-call-accuracy"])
def test_where_a_better_pairing_takes_too_much_work_the_score_is_a_range(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in (by_name, trajectory_comparison):
        monkeypatch.setattr(module, "after_scan", lambda work, evidence: Work(2, evidence))
    key = "reference_tool_calls" if name == "tool-call-accuracy" else "tool_calls"
    criteria = {key: [{"name": "pay", "args": {"x": {"$gte": least}}} for least in (0, 5)]}
    settings = {"match": "any_order", "score": "recall"} if name == "trajectory" else {}
    made = [("pay", {"x": 9}), ("pay", {"x": 1})]
    found = score(name, criteria, made, **settings)
    assert found.range == (0.5, 1.0, TOO_MANY)
    assert (found.outcome(0.5), found.outcome(1.0)) == ("pass", "not_evaluable")
    if name == "trajectory":
        found = score(name, criteria, made, **settings, negate=True)
        assert found.ends[:2] == (0.0, 0.5)
        settings["call_credit"] = "fractional"
        found = score(name, criteria, made, **settings)
        assert found.ends[:2] == (0.5, 1.0)
