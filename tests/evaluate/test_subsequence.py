from collections.abc import Sequence
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.subsequence import is_arrangement, longest_common_subsequence
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


@given(st.lists(names, max_size=5), groups_of_names)
def test_it_is_the_longest_over_every_order_that_the_groups_allow(expected: list[str], groups: list[list[str]]) -> None:
    found = longest_common_subsequence(expected, groups, Work())
    assert len(found) == _brute_force_length(expected, groups)
    assert found == sorted(set(found))
    common = [expected[position] for position in found]
    assert any(_contains(order, common) for order in _arrangements(groups))


@given(st.lists(names, max_size=6), groups_of_names)
def test_an_arrangement_is_one_of_every_order_that_the_groups_allow(
    expected: list[str], groups: list[list[str]]
) -> None:
    assert is_arrangement(expected, groups) is (expected in _arrangements(groups))


@given(groups_of_names)
def test_every_order_that_the_groups_allow_is_an_arrangement(groups: list[list[str]]) -> None:
    assert all(is_arrangement(order, groups) for order in _arrangements(groups))


def test_names_that_nobody_expects_cost_nothing() -> None:
    work = Work(10)
    assert longest_common_subsequence(["a"], [["x"]] * 1000 + [["a"]], work) == [0]
    assert work.left == 9


def test_what_is_all_there_costs_one_scan() -> None:
    work = Work(3000)
    assert longest_common_subsequence(["a"] * 3000, [["a"]] * 3000, work) == list(range(3000))
    assert work.left == 0


def test_work_is_bounded() -> None:
    with pytest.raises(EvaluatorError, match="steps") as error:
        longest_common_subsequence(["a"] * 3000 + ["b"], [["a"]] * 3000, Work())
    assert error.value.type == "work_bound"
    with pytest.raises(EvaluatorError, match="steps"):
        longest_common_subsequence(["a"] * 1000, [["a", "a"]] * 20, Work())
