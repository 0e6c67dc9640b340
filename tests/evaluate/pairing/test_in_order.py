from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.pairing.in_order import (
    ExpectedOrder,
    Matching,
    align,
    all_in_order,
    arrange,
    arrangement,
    longest_common_subsequence,
    longest_of_single_calls,
)
from tracegrade.evaluate.work import Work

names = st.sampled_from("abc")
groups_of_names = st.lists(st.lists(names, min_size=1, max_size=3), max_size=4)


def _arrangements(groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """Every order that the groups allow."""
    return [[name for group in chosen for name in group] for chosen in product(*map(permutations, groups))]


def _contains(sequence: Sequence[str], wanted: Sequence[str]) -> bool:
    rest = iter(sequence)
    return all(name in rest for name in wanted)


def _brute_force_length(expected: Sequence[str], groups: Sequence[Sequence[str]]) -> int:
    subsequences = [
        [name for name, taken in zip(expected, mask, strict=True) if taken]
        for mask in product([False, True], repeat=len(expected))
    ]
    return max(len(s) for s in subsequences if any(_contains(order, s) for order in _arrangements(groups)))


def _placed(groups: Sequence[Sequence[str]]) -> tuple[list[str], list[list[int]]]:
    """The names, and the positions of each group."""
    positions = iter(range(sum(map(len, groups))))
    return [name for group in groups for name in group], [[next(positions) for _ in group] for group in groups]


def _longest(expected: Sequence[str], groups: Sequence[Sequence[str]], work: Work) -> list[tuple[int, int]]:
    return longest_common_subsequence(ExpectedOrder(expected), *_placed(groups), work)


@given(st.lists(names, max_size=5), groups_of_names)
def test_it_is_the_longest_over_every_order_that_the_groups_allow(expected: list[str], groups: list[list[str]]) -> None:
    found = _longest(expected, groups, Work())
    assert len(found) == _brute_force_length(expected, groups)
    indexes = [index for index, _ in found]
    assert indexes == sorted(set(indexes))
    common = [expected[index] for index in indexes]
    assert any(_contains(order, common) for order in _arrangements(groups))
    made, placed = _placed(groups)
    assert [made[position] for _, position in found] == common
    assert len({position for _, position in found}) == len(found)
    number = {position: place for place, group in enumerate(placed) for position in group}
    assert [number[position] for _, position in found] == sorted(number[position] for _, position in found)


@given(st.lists(names, max_size=6), groups_of_names)
def test_an_arrangement_is_one_of_every_order_that_the_groups_allow(
    expected: list[str], groups: list[list[str]]
) -> None:
    made, placed = _placed(groups)
    for order in (expected, *_arrangements(groups)):
        found = arrangement(order, made, placed)
        assert (found is not None) is (order in _arrangements(groups))
        if found is not None:
            assert [made[position] for position in found] == order
            assert sorted(found) == list(range(len(made)))


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=4))
def test_names_are_in_order_when_all_of_them_are_a_common_subsequence(names: list[str], wanted: list[str]) -> None:
    found = _longest(wanted, [[name] for name in names], Work())
    assert all_in_order(wanted, names) == ([at for _, at in found] if len(found) == len(wanted) else None)


@given(st.lists(names, max_size=8), st.lists(st.sampled_from("abcx"), max_size=8))
def test_single_calls_are_aligned_as_groups_of_one_are(expected: list[str], made: list[str]) -> None:
    order = ExpectedOrder(expected)
    rows = align(len(expected), [[order.fits.get(name, {})] for name in made], Work())
    assert longest_of_single_calls(order, made, Work()) == rows


def test_names_that_nobody_expects_cost_nothing() -> None:
    work = Work(10)
    assert _longest(["a"], [["x"]] * 1000 + [["a"]], work) == [(0, 1000)]
    assert work.left == 9


def test_what_is_all_there_costs_one_scan() -> None:
    work = Work(3000)
    assert _longest(["a"] * 3000, [["a"]] * 3000, work) == [(place, place) for place in range(3000)]
    assert work.left == 0


@pytest.mark.long
def test_work_is_bounded() -> None:
    with pytest.raises(EvaluatorError, match="steps") as error:
        _longest(["a"] * 3000 + ["b"], [["a"]] * 3000, Work())
    assert error.value.type == "work_bound"
    with pytest.raises(EvaluatorError, match="steps"):
        longest_of_single_calls(ExpectedOrder(["a"] * 3000), ["a"] * 2000, Work())
    with pytest.raises(EvaluatorError, match="steps"):
        _longest(["a"] * 1000, [["a"] * 100] * 2, Work())


fits = st.dictionaries(st.integers(0, 3), st.sampled_from([0.5, 1.0]), max_size=4)
groups_of_fits = st.lists(st.lists(fits, min_size=1, max_size=3), max_size=3)


def _best_worth(size: int, calls: Sequence[Any]) -> float:
    """The worth of the best alignment of calls that have one order, by the textbook recurrence."""
    best = [[0.0] * (size + 1) for _ in range(len(calls) + 1)]
    for i, call in enumerate(calls):
        for j in range(size):
            best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j], best[i][j] + call.get(j, 0.0))
    return best[-1][-1]


@given(groups_of_fits)
def test_an_alignment_is_worth_most_where_calls_have_an_order(groups: list[list[dict[int, float]]]) -> None:
    calls = [call for group in groups for call in group]
    pairs = align(4, [[call] for call in calls], Work())
    assert sum(calls[position][index] for index, position in pairs) == _best_worth(4, calls)
    assert [index for index, _ in pairs] == sorted({index for index, _ in pairs})
    assert [position for _, position in pairs] == sorted({position for _, position in pairs})


@given(groups_of_fits)
def test_whole_fits_take_the_best_order_inside_each_group(groups: list[list[dict[int, float]]]) -> None:
    whole = [[dict.fromkeys(call, 1.0) for call in group] for group in groups]
    orders = [[call for group in chosen for call in group] for chosen in product(*map(permutations, whole))]
    pairs = align(4, whole, Work())
    calls = [call for group in whole for call in group]
    assert all(index in calls[position] for index, position in pairs)
    assert len(pairs) == max(_best_worth(4, order) for order in orders)


@given(groups_of_fits)
def test_an_arrangement_has_the_most_positions_that_fit(groups: list[list[dict[int, float]]]) -> None:
    orders = [[call for group in chosen for call in group] for chosen in product(*map(permutations, groups))]
    most = max(sum(index in call for index, call in enumerate(order)) for order in orders)
    assert len(arrange(4, groups, Work())) == most


def test_a_matching_frees_a_call_for_another() -> None:
    matching = Matching([{0: 1.0, 1: 1.0}, {0: 1.0}], Work())
    assert matching.add(0)
    assert matching.add(1)
    assert matching.member_of == {0: 1, 1: 0}
    assert not matching.add(2)


def test_the_worked_example_of_the_module() -> None:
    fits = ExpectedOrder(["a", "b", "c", "b"]).fits
    assert align(4, [[fits["b"]], [fits["a"], fits["c"]], [fits["b"]]], Work()) == [(0, 1), (2, 2), (3, 3)]
