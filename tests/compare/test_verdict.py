import random

import pytest

from build import each
from tracegrade.compare.shares import Difference, Share, independent
from tracegrade.compare.verdict import Verdict, exit_code, holm, verdict


@each(
    ("value", "low", "high", "p", "expected"),
    [
        (-0.05, -0.08, -0.02, 0.001, "worse"),
        (-0.01, -0.015, -0.005, 0.001, "worse_within_margin"),
        (-0.01, -0.02, -0.005, 0.001, "worse"),  # the bound lies at the margin, not above it
        (0.05, 0.02, 0.08, 0.05, "better"),
        (0.05, 0.02, 0.08, 0.051, "not_worse"),  # after Holm no longer better, though its interval is above 0
        (-0.05, -0.08, -0.02, 0.051, "cannot_tell"),  # after Holm no longer worse, nor surely within the margin
        (-0.01, -0.015, -0.005, 0.06, "not_worse"),
        (0.0, -0.01, 0.01, 1.0, "not_worse"),
        (0.0, -0.03, 0.03, 1.0, "cannot_tell"),
    ],
)
def test_verdict(value: float, low: float, high: float, p: float, expected: Verdict) -> None:
    assert verdict(Difference(value, low, high, 0.0, ""), p, 0.02) == expected


def test_without_a_difference_nothing_can_be_told() -> None:
    assert verdict(None, 1.0) == "cannot_tell"


@each(
    ("verdicts", "allowed", "expected"),
    [
        (["better", "not_worse"], False, 0),
        (["better", "cannot_tell"], False, 3),
        (["worse", "cannot_tell"], False, 1),
        (["worse", "cannot_tell"], True, 1),
        (["worse_within_margin", "better"], False, 1),
        (["worse_within_margin", "better"], True, 0),
        (["worse_within_margin", "cannot_tell"], True, 3),
        ([], False, 3),
    ],
)
def test_exit_code(verdicts: list[Verdict], allowed: bool, expected: int) -> None:
    assert exit_code(verdicts, allow_within_margin=allowed) == expected


def _decided(chance: random.Random, rates: list[tuple[float, float]], results: int) -> list[Verdict]:
    """The verdicts on rules that pass with these chances on A and B, with so many results on each side."""
    found = [independent(*(_drawn(chance, rate, results) for rate in pair)) for pair in rates]
    return [verdict(item, p) for item, p in zip(found, holm([item.p for item in found]), strict=True)]


def _drawn(chance: random.Random, rate: float, results: int) -> Share:
    passes = sum(chance.random() < rate for _ in range(results))
    return Share(passes, results - passes)


@pytest.mark.parametrize("rates", [[0.95], [0.5], [0.99, 0.9, 0.97, 0.8, 0.999]], ids=str)
def test_where_nothing_changed_at_most_one_comparison_in_twenty_says_worse(rates: list[float]) -> None:
    chance, tries = random.Random(3), 200
    worse = sum(exit_code(_decided(chance, [(rate, rate) for rate in rates], 200)) == 1 for _ in range(tries))
    assert worse / tries <= 0.05


def test_a_fall_from_95_to_90_percent_is_found_with_1000_results_a_side() -> None:
    chance, tries = random.Random(4), 200
    assert sum(_decided(chance, [(0.95, 0.90)], 1000) == ["worse"] for _ in range(tries)) / tries >= 0.9
