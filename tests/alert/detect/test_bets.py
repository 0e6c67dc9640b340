"""Bets: what makes them evidence, by the arithmetic that stands in the module."""

from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegrade.alert.detect.bets import _PARTS, Bets
from tracegrade.alert.detect.moments import Moments

HOURLY = (100.0,) * 24


def moments(values: list[float], minutes: int = 60) -> Moments:
    return Moments(0, minutes, len(values), sum(values), sum(value * value for value in values))


def gains(bets: Bets, values: list[float], minutes: int = 60) -> list[float]:
    bets.begin(0)
    return bets.add(moments(values), minutes)


def test_the_worked_example() -> None:
    found = gains(Bets(HOURLY, 0.0), [110, 90, 160])[_PARTS.index(0.4)]
    assert found == pytest.approx(2.829 * log(0.6 + 0.4 * 1.2722) + 0.171 * log(0.6), abs=1e-3)
    assert found == pytest.approx(0.205, abs=1e-3)
    assert log(1.04) + log(0.96) + log(1.24) == pytest.approx(0.213, abs=1e-3)


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=20), st.sampled_from(range(len(_PARTS))))
def test_what_is_counted_is_never_more_than_was_won(values: list[float], place: int) -> None:
    part = _PARTS[place]
    won = sum(log(1 - part + part * value / 100) for value in values)
    assert gains(Bets(HOURLY, 0.0), values)[place] <= won + 1e-6 * (1 + abs(won))


@given(st.floats(0, 1e7), st.integers(1, 50), st.sampled_from(range(len(_PARTS))))
def test_of_values_that_are_all_the_same_nothing_is_lost(value: float, count: int, place: int) -> None:
    part = _PARTS[place]
    won = count * log(1 - part + part * value / 100)
    assert gains(Bets(HOURLY, 0.0), [value] * count)[place] == pytest.approx(won, rel=1e-6, abs=1e-6)


@given(st.floats(1.01, 500), st.sampled_from(range(len(_PARTS))))
def test_the_way_back_wins_nothing_on_average_where_the_mean_is_at_the_bound(ratio: float, place: int) -> None:
    """Values of 0 and of `ratio` times the bound, as often as their mean is the bound: the more, the rarer."""
    rare = 1 / ratio
    squares = (1 - rare) * 1.0 + rare * (1 - ratio) ** 2
    bets = Bets(HOURLY, 0.0, back_from=squares)
    won = (1 - rare) * exp(gains(bets, [0.0])[place]) + rare * exp(gains(bets, [100 * ratio])[place])
    assert won <= 1 + 1e-9


def test_values_that_depend_on_each_other_tell_less_and_the_less_the_shorter_their_time() -> None:
    values = [130.0] * 20
    independent, dependent = (gains(Bets(HOURLY, dispersion), values)[1] for dispersion in (0.0, 0.1))
    assert dependent == pytest.approx(independent / (1 + 19 * 0.1))
    quarter = gains(Bets(HOURLY, 0.1), values, minutes=15)[1]
    assert quarter == pytest.approx(independent / (1 + 19 * 0.4))
