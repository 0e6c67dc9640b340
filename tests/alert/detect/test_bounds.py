"""Bounds against their definitions, worked by hand or by exact sums."""

from math import comb, exp, log

import pytest

from tracegrade.alert.detect.bounds import bernstein, chernoff_lower, divergence, mean_p_value, share_p_value, wilson


def test_wilson_as_in_the_textbook() -> None:
    """81 of 263 at 95 %, both sides: 0.2535 to 0.3682 (Newcombe's table I, method 4)."""
    low, high = wilson(81, 263, 0.025)
    assert (low, high) == pytest.approx((0.2535, 0.3682), abs=1e-4)


def test_wilson_at_the_ends() -> None:
    assert wilson(0, 10, 0.01)[0] == 0.0
    assert wilson(10, 10, 0.01)[1] == 1.0
    assert share_p_value(10, 10, 0.9) == 1.0


@pytest.mark.parametrize(("bound", "samples"), [(0.9, 30), (0.9, 100), (0.95, 60), (0.5, 30), (0.99, 200)])
def test_a_rate_at_its_bound_looks_lower_as_rarely_as_it_says(bound: float, samples: int) -> None:
    """Exactly: the binomial probability of all counts that would fire at confidence 0.99; about is within twice."""
    fires = sum(
        comb(samples, count) * bound**count * (1 - bound) ** (samples - count)
        for count in range(samples + 1)
        if share_p_value(count, samples, bound) <= 0.01
    )
    assert fires <= 0.02


@pytest.mark.parametrize(("successes", "samples"), [(0, 10), (3, 10), (10, 10), (450, 500)])
def test_wilson_and_the_p_value_are_one_test(successes: int, samples: int) -> None:
    for error in (0.01, 0.2):
        high = wilson(successes, samples, error)[1]
        if high < 1:
            assert share_p_value(successes, samples, high) == pytest.approx(error)


def test_bernstein_s_bound_and_its_p_value_are_one_test() -> None:
    high = bernstein(0.6, 0.04, 500, 0.01)[1]
    assert mean_p_value(0.6, 0.04, 500, high) == pytest.approx(0.01)
    assert mean_p_value(0.6, 0.04, 500, 0.6) == 1.0
    assert bernstein(0.6, 0.04, 1, 0.01) == (0.0, 1.0), "one score says nothing about how far they lie apart"


def test_bernstein_by_hand() -> None:
    """Mean 0.5, variance 0.01, n = 101, error 2/e: sqrt(0.02/101) + 7/300."""
    low, high = bernstein(0.5, 0.01, 101, 2 * exp(-1))
    assert high - 0.5 == pytest.approx(0.014072 + 0.023333, abs=1e-5)
    assert 0.5 - low == pytest.approx(high - 0.5)


@pytest.mark.parametrize("true_share", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("samples", [10, 60, 300])
def test_the_lower_bound_of_a_baseline_is_wrong_as_rarely_as_it_says(true_share: float, samples: int) -> None:
    """Exactly: the binomial probability of all counts whose bound lies above the true share."""
    wrong = sum(
        comb(samples, count) * true_share**count * (1 - true_share) ** (samples - count)
        for count in range(samples + 1)
        if chernoff_lower(count / samples, samples, 0.01) > true_share
    )
    assert wrong <= 0.01


def test_divergence() -> None:
    assert divergence(0.5, 0.25) == pytest.approx(0.5 * log(2) + 0.5 * log(0.5 / 0.75))
    assert divergence(1.0, 0.5) == pytest.approx(log(2))
    assert divergence(0.0, 0.5) == pytest.approx(log(2))
    assert divergence(0.5, 1.0) == float("inf")
