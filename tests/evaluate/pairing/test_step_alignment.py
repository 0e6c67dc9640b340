"""The best way to lay calls beside steps, against one that tries all ways; and what partial-order says of it."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from build import calls, each, score
from tracegrade.evaluate.criteria.field_types import refuse_unread_matchers
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.pairing.step_alignment import align
from tracegrade.evaluate.pairing.steps import Choice, Parallel, Steps
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.work import Work

PARTIAL_ORDER = EVALUATORS["partial-order"]

names = st.sampled_from("abc")
plain = st.one_of(
    names,
    st.fixed_dictionaries(
        {"tool": names},
        optional={
            "optional": st.booleans(),
            "anywhere": st.booleans(),
            "repeat": st.sampled_from([[0, 1], [1, 2], [1, 3]]),
            "after": st.just([]),
        },
    ),
)
items = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"parallel": st.lists(st.lists(inner, min_size=1, max_size=2), min_size=2, max_size=2)}),
        st.fixed_dictionaries({"choice": st.lists(st.lists(inner, min_size=1, max_size=2), min_size=2, max_size=2)}),
    ),
    max_leaves=4,
)


def steps_of(written: Any) -> Steps | None:
    try:
        found: Steps = PARTIAL_ORDER.read_criteria({"steps": written}).read
    except EvaluatorError:
        return None  # all are optional
    return found


@example([{"tool": "b", "repeat": [1, 2]}], [("b", False), ("b", True)], [], False)
@example([{"choice": [["a", "a"], [{"tool": "a", "optional": True}]]}], [("a", False)] * 2, [], True)
@example(  # the first call is the second of a branch, which the call between them can follow
    [
        {"choice": [["d"], ["c", {"tool": "c", "after": []}]]},
        "b",
    ],
    [("c", False), ("b", True), ("c", True)],
    [],
    False,
)
@given(
    st.lists(items, min_size=1, max_size=3),
    st.lists(st.tuples(names, st.booleans()), max_size=5),
    st.lists(st.integers(0, 4), max_size=5),
    st.booleans(),
)
@settings(max_examples=2 * settings().max_examples)
def test_the_best_way_costs_as_little_as_the_best_of_all_ways(
    written: Any, made: Sequence[tuple[str, bool]], cuts: Sequence[int], count_extra: bool
) -> None:
    steps = steps_of(written)
    if steps is None or len(steps.plain) > 6:
        return
    called = [name for name, _ in made]
    fit = [fits for _, fits in made]
    groups: list[list[int]] = []
    for place in range(len(called)):
        if groups and place in cuts:
            groups[-1].append(place)
        else:
            groups.append([place])
    found = align(steps, called, groups, lambda call, step: fit[call], Work(), count_extra=count_extra)
    pairs = {one.call: one.step for one in found.made}
    assert is_allowed(steps, pairs, called, groups, fit)
    assert all(one.fits is fit[one.call] for one in found.made)
    best = min(cost(written, steps, way, called, fit, count_extra) for way in all_ways(steps, called, groups, fit))
    assert cost(written, steps, pairs, called, fit, count_extra) == best
    gained = sum(1.0 if one.fits else 0.5 for one in found.made if not steps.plain[one.step].optional)
    extra = (len(called) - len(pairs)) if count_extra else 0
    assert found.required - gained + extra == best


def all_ways(
    steps: Steps, called: Sequence[str], groups: Sequence[Sequence[int]], fit: Sequence[bool]
) -> Iterator[dict[int, int]]:
    def choose(call: int, way: dict[int, int]) -> Iterator[dict[int, int]]:
        if call == len(called):
            yield dict(way)
            return
        yield from choose(call + 1, way)
        for step in range(len(steps.plain)):
            if step not in way.values():
                way[call] = step
                yield from choose(call + 1, way)
                del way[call]

    yield from (way for way in choose(0, {}) if is_allowed(steps, way, called, groups, fit))


def is_allowed(
    steps: Steps, way: dict[int, int], called: Sequence[str], groups: Sequence[Sequence[int]], fit: Sequence[bool]
) -> bool:
    group_of = {place: number for number, group in enumerate(groups) for place in group}
    for call, number in way.items():
        step = steps.plain[number]
        if called[call] not in step.names or (step.optional and not fit[call]):
            return False
    for first, second in combinations(sorted(way), 2):
        one, other = steps.plain[way[first]], steps.plain[way[second]]
        if group_of[first] != group_of[second] and one.before >> way[second] & 1:
            return False
        if any(choice.others >> way[second] & 1 for choice in one.chosen) or any(
            choice.others >> way[first] & 1 for choice in other.chosen
        ):
            return False
    return True


def cost(
    written: Any, steps: Steps, way: dict[int, int], called: Sequence[str], fit: Sequence[bool], count_extra: bool
) -> float:
    numbers = iter(range(len(steps.plain)))
    missing, _, _ = missing_in(written, numbers, set(way.values()))
    wrong = sum(not fit[call] and not steps.plain[step].optional for call, step in way.items())
    return missing + wrong / 2 + (len(called) - len(way) if count_extra else 0)


def missing_in(items: Any, numbers: Iterator[int], taken: set[int]) -> tuple[int, int, bool]:
    """How many required steps are missing, how many are required, and whether any was taken."""
    missing, required, touched = 0, 0, False
    for item in items:
        if isinstance(item, dict) and "parallel" in item:
            found = [missing_in(branch, numbers, taken) for branch in item["parallel"]]
            missing += sum(one[0] for one in found)
            required += sum(one[1] for one in found)
            touched |= any(one[2] for one in found)
        elif isinstance(item, dict) and "choice" in item:
            found = [missing_in(branch, numbers, taken) for branch in item["choice"]]
            gone = [one for one in found if one[2]]
            missing += gone[0][0] if gone else min(one[1] for one in found)
            required += min(one[1] for one in found)
            touched |= bool(gone)
        else:
            step = {"tool": item} if isinstance(item, str) else item
            least, most = step.get("repeat", [1, 1])
            for time in range(most):
                number = next(numbers)
                touched |= number in taken
                if not step.get("optional") and time < least:
                    required += 1
                    missing += number not in taken
    return missing, required, touched


def judged(steps: Any, calls: list[Any], score: Any, **changes: Any) -> Any:
    return score("partial-order", {"steps": steps}, calls, **changes)


@each(
    ("steps", "calls", "share", "said"),
    [
        (["a", "b"], "a b", 1.0, "All steps were made in an allowed order."),
        (["a", "b"], "b a", 0.5, "1 of 2 steps were made; out of order: "),
        (["a", "b"], "a x b x", 1.0, "All steps were made"),
        (["a", {"parallel": ["b", ["c", "d"]]}, "e"], "a c b d e", 1.0, "All steps"),
        (["a", {"parallel": ["b", ["c", "d"]]}, "e"], "a d b c e", 0.8, "4 of 5 steps were made; out of order: "),
        (["a", {"choice": ["b", ["c", "d"]]}], "a c d", 1.0, "All steps"),
        (["a", {"choice": ["b", ["c", "d"]]}], "a b", 1.0, "All steps"),
        (["a", {"choice": ["b", ["c", "d"]]}], "a", 0.5, "1 of 2 steps were made; missing: b."),
        (["a", {"choice": ["b", ["c", "d"]]}], "a c", 2 / 3, "2 of 3 steps were made; missing: d."),
        (["a", {"tool": "b", "optional": True}, "c"], "a c", 1.0, "All steps"),
        ([{"tool": "a", "repeat": [2, 3]}, "b"], "a b", 2 / 3, "2 of 3 steps were made; missing: a."),
        ([{"tool": "a", "repeat": [1, 3]}, "b"], "a a a b", 1.0, "All steps"),
        (["a", "b", {"tool": "c", "after": ["a"]}], "a c b", 1.0, "All steps"),
        (["a", "b", {"tool": "c", "after": "a"}], "a c b", 1.0, "All steps"),
        (["a", "b", {"tool": "log", "anywhere": True}], "log a b", 1.0, "All steps"),
        ([{"tool": ["pay_*", "charge"]}], "pay_card", 1.0, "All steps"),
    ],
)
def test_the_score_is_the_share_of_steps_that_were_made(steps: Any, calls: str, share: float, said: str) -> None:
    found = judged(steps, calls.split(), score)
    assert found.score == pytest.approx(share)
    assert found.explanation.startswith(said)


def test_each_step_says_what_became_of_it() -> None:
    steps = ["a", {"tool": "pay", "args": {"amount": {"$lte": 5}}}, "c", "d"]
    found = judged(steps, ["d", "a", ("pay", {"amount": 7, "to": "x"}), "z"], score)
    assert found.score == 1.5 / 4
    shown = {step["step"]: (step["found"], step.get("call")) for step in found.details["steps"]}
    assert shown == {"a": ("made", 2), "pay": ("wrong arguments", 3), "c": ("missing", None), "d": ("out of order", 1)}
    assert found.details["steps"][1]["differences"][0]["path"] == "args.amount"
    assert [call["name"] for call in found.details["extra"]] == ["z"]
    assert "7" not in found.explanation


def test_extra_calls_count_where_that_is_asked() -> None:
    assert judged(["a", "b"], ["a", "x", "b"], score, extra="count").score == pytest.approx(2 / 3)


@each(
    ("steps", "why"),
    [
        ([], "at least 1"),
        ([{"tool": "a", "optional": True}], "expected a step that may not be left out"),
        (["a", {"tool": "b", "after": ["c"]}], "no step 'c' above; expected one of a"),
        ([{"tool": "a", "repeat": [3, 1]}], "expected the least and the most times"),
        ([{"tool": "a", "after": ["b"], "anywhere": True}], "expected 'after' or 'anywhere', found both"),
        ([{"parallel": ["a"]}], "at least 2"),
        ([{"tool": "a", "repeat": [1, 100]}] * 6, "at most 500 steps"),
    ],
)
def test_steps_that_no_order_has_are_refused(steps: Any, why: str) -> None:
    with pytest.raises(EvaluatorError, match=why):
        PARTIAL_ORDER.read_criteria({"steps": steps})


@pytest.mark.long
def test_the_work_is_bounded() -> None:
    """Twelve branches of five steps each, and calls of one name that is in all of them."""
    steps = [{"parallel": [["a"] * 5 for _ in range(12)]}]
    with pytest.raises(EvaluatorError, match="more than 5000000 steps"):
        judged(steps, ["a"] * 400, score)


_BRANCHES = [[f"{branch}_{number}" for number in range(16)] for branch in "abc"]
_INTERLEAVED = [step for steps in zip(*_BRANCHES, strict=True) for step in steps]


@pytest.mark.parametrize(
    "calls",
    [_INTERLEAVED * 20, [call for call in _INTERLEAVED for _ in range(20)], [*_INTERLEAVED, *_INTERLEAVED[::-1] * 19]],
    ids=["in rounds", "each again and again", "backwards from the second round on"],
)
def test_calls_in_order_of_long_branches_are_little_work(calls: list[str]) -> None:
    steps = steps_of([{"parallel": _BRANCHES}])
    assert steps is not None
    work = Work(6_000)  # about six for each call
    found = align(
        steps, calls, [[place] for place in range(len(calls))], lambda call, step: True, work, count_extra=False
    )
    assert len(found.made) == 48


_TWENTY = [f"t{number}" for number in range(20)]


@each(
    ("written", "together", "after", "made"),
    [
        ([{"tool": "a", "repeat": [1, 10]}, "b"], "a" * 20, "", 10),
        ([{"tool": "a", "repeat": [1, 10]}, "b"], "a" * 20, "b", 11),
        ([{"tool": "a", "repeat": [1, 100]}, "b"], "a" * 1000, "b", 101),
        ([{"tool": "a", "repeat": [2, 9]}, {"parallel": ["b", {"tool": "c", "repeat": [1, 9]}]}], "abc" * 20, "d", 19),
        (_TWENTY, _TWENTY, ["t0"], 20),
        ([{"parallel": _TWENTY}, "a"], _TWENTY, ["a"], 21),
        ([{"parallel": [["a"] * 5 for _ in range(6)]}], "a" * 100, "", 30),
    ],
)
def test_calls_made_together_are_counted_and_not_their_subsets(
    written: Any, together: Sequence[str], after: Sequence[str], made: int
) -> None:
    steps = steps_of(written)
    assert steps is not None
    groups = [[*range(len(together))], *([len(together) + place] for place in range(len(after)))]
    called = [*together, *after]
    found = align(steps, called, groups, lambda call, step: True, Work(20_000), count_extra=False)
    assert len(found.made) == made


def test_matchers_in_branches_are_matchers() -> None:
    step = {"tool": "a", "args": {"x": {"$gte": 1}}}
    refuse_unread_matchers(Parallel, {"parallel": ["b", [step]]})
    refuse_unread_matchers(Choice, {"choice": [["b", step], step]})


def test_a_call_that_cannot_be_read_may_be_of_a_way_that_costs_more_and_scores_higher() -> None:
    """Read as the optional step it costs least, with a quarter as the score; as the second step, it makes a third."""
    steps = [{"tool": "find", "args": {"x": "a"}, "optional": True}, {"tool": "find", "args": {"x": "ab"}}, "pay"]
    criteria = PARTIAL_ORDER.read_criteria({"steps": steps})
    counted = PARTIAL_ORDER.read_settings({"extra": "count"})
    found = PARTIAL_ORDER.evaluate(Evidence(calls(("find", None), ("find", {}))), criteria, counted)
    assert score("partial-order", {"steps": steps}, [("find", {"x": "ab"}), "find"], extra="count").score == 1 / 3
    assert found.ends.least == 0
    assert 1 / 3 <= found.ends.most < 1
