"""Bounds against their definitions, worked by hand or by exact sums."""

from math import comb, exp, log

import pytest

from build import each
from tracegrade.alert.detect.bounds import bernstein, chernoff_lower, divergence


def test_one_score_says_nothing_about_how_far_they_lie_apart() -> None:
    assert bernstein(0.6, 0.04, 1, 0.01) == (0.0, 1.0)


def test_bernstein_by_hand() -> None:
    """Mean 0.5, variance 0.01, n = 101, error 2/e: sqrt(0.02/101) + 7/300."""
    low, high = bernstein(0.5, 0.01, 101, 2 * exp(-1))
    assert high - 0.5 == pytest.approx(0.014072 + 0.023333, abs=1e-5)
    assert 0.5 - low == pytest.approx(high - 0.5)


@each("true_share", [0.5, 0.9, 0.99])
@each("samples", [10, 60, 300])
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
