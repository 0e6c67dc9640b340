from itertools import product

import pytest

from tracegrade.model.tri import Tri, Unknown, all_of, any_of, negated

FIRST, SECOND = Unknown("masked", "arguments", 0), Unknown("absent", "output", 1)
# In Kleene's logic no is 0, unknown 1/2 and yes 1: `and` is the least, `or` the greatest, `not` 1 less it.
WORTH: dict[Tri, float] = {False: 0.0, FIRST: 0.5, SECOND: 0.5, True: 1.0}


def worth(answer: Tri) -> float:
    return WORTH[answer]


def test_three_answers_combine_as_in_kleenes_logic() -> None:
    for size in range(4):
        for answers in product(WORTH, repeat=size):
            assert worth(all_of(answers)) == min(map(worth, answers), default=1.0), answers
            assert worth(any_of(answers)) == max(map(worth, answers), default=0.0), answers
            for one in answers:
                assert worth(negated(one)) == 1 - worth(one)


def test_of_unknown_parts_the_first_says_why() -> None:
    assert all_of((True, SECOND, FIRST)) is SECOND
    assert any_of((False, FIRST, SECOND)) is FIRST
    assert negated(SECOND) is SECOND


def test_nothing_is_asked_after_what_decides() -> None:
    asked = iter((FIRST, False, True))
    assert all_of(asked) is False
    assert list(asked) == [True]
    asked = iter((FIRST, True, False))
    assert any_of(asked) is True
    assert list(asked) == [False]


def test_unknown_is_never_taken_for_yes_or_no() -> None:
    with pytest.raises(TypeError, match=r"unknown \(masked\) is neither true nor false"):
        bool(FIRST)
