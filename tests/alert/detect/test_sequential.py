"""The detector against what it promises; the numbers by hand are in `bench/alert_rates.py`, 1,000 runs each."""

import random
from math import exp, log

import pytest
from bench.alert_rates import EVERY, STATED, delay, designed_delay, false_alarms, many_series

from tracegrade.alert.detect.sequential import DropDetector, as_happened, as_kept


def test_the_worked_example_of_the_module_is_true() -> None:
    detector = DropDetector(0.9, 0.1)
    shown = []
    for passed in [1] * 4 + [0] * 6:
        detector.add(passed, 1 - passed)
        shown.append((f"{detector.evidence:.3g}", detector.since))
    assert shown[:4] == [("0.741", None), ("1.31", None), ("1.76", None), ("2.12", None)]
    assert shown[4:] == [("9.44", 4), ("36.1", 4), ("144", 4), ("622", 4), ("2.83e+03", 4), ("1.34e+04", 4)]


@pytest.mark.parametrize("true_share", [0.9, 0.95, 1.0])
def test_a_result_adds_one_at_most_while_nothing_has_fallen(true_share: float) -> None:
    """Exactly, over all outcomes of four results: the mean of the evidence is at most 4."""
    mean = 0.0
    for outcomes in range(16):
        detector = DropDetector(0.9, 0.1)
        chance = 1.0
        for place in range(4):
            passed = outcomes >> place & 1
            chance *= true_share if passed else 1 - true_share
            detector.add(passed, 1 - passed)
        mean += chance * detector.evidence
    assert mean <= 4 + 1e-9
    if true_share == 0.9:
        assert mean == pytest.approx(4)


def test_scores_say_no_more_than_passes_and_fails_of_the_same_mean() -> None:
    """Each result of 0.8 for sure, against 8 passes and 2 fails: the same mean, so the same evidence, at once."""
    scores, outcomes = DropDetector(0.9, 0.1), DropDetector(0.9, 0.1)
    scores.add(8.0, 2.0)
    outcomes.add(8, 2)
    assert (
        scores.evidence
        == outcomes.evidence
        == pytest.approx(
            sum(10 * exp(8 * log(after / 0.9) + 2 * log((1 - after) / 0.1)) for after in (0.8, 0.7, 0.5)) / 3
        )
    )


def test_it_says_where_the_fall_most_likely_began() -> None:
    detector = DropDetector(0.9, 0.1)
    for passed in (9, 9, 10, 6, 5, 6):
        detector.add(passed, 10 - passed)
    assert detector.since == 3


def test_nothing_speaks_for_a_fall_among_passes() -> None:
    detector = DropDetector(0.9, 0.1)
    detector.add(100, 0)
    assert detector.since is None
    assert detector.evidence < 1


@pytest.mark.parametrize(("before", "drop"), [(1.0, 0.1), (0.05, 0.1), (0.001, 0.5), (0.9, 0.9)])
def test_extreme_baselines_are_watched_all_the_same(before: float, drop: float) -> None:
    detector = DropDetector(before, drop)
    detector.add(0, 10_000)
    assert detector.evidence > EVERY


def test_a_baseline_that_is_hardly_known_still_finds_a_collapse() -> None:
    """Its lower bound lies below the drop looked for."""
    detector = DropDetector(0.7, 0.1, usual=0.9)
    detector.add(0, 20)
    assert detector.evidence > EVERY


@pytest.mark.parametrize("ratio", [1.0, 0.05])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99, 1.0])
def test_kept_and_happened_are_each_other_s_inverse(share: float, ratio: float) -> None:
    assert as_happened(as_kept(share, ratio), ratio) == pytest.approx(share)


@pytest.mark.slow
@pytest.mark.parametrize("baseline", [STATED, 60, 5000])
@pytest.mark.parametrize("share", [0.95, 0.7])
def test_false_alarms_are_as_rare_as_designed(share: float, baseline: int) -> None:
    found = false_alarms(share, baseline, results=1000, runs=60, chance=random.Random(7))
    # Designed are 10 or 11 %; of 60 runs, more than 14 would be one in a thousand.
    assert found.simulated <= 14 / 60


@pytest.mark.slow
@pytest.mark.parametrize(("after", "baseline"), [(0.8, STATED), (0.5, STATED), (0.75, 500), (0.8, 5000)])
def test_a_fall_is_found_as_soon_as_designed(after: float, baseline: int) -> None:
    found = delay(0.9, after, baseline, runs=40, chance=random.Random(7), most=1000)
    assert found.designed / 5 < found.simulated <= found.designed
    assert found.found >= 0.95


@pytest.mark.slow
def test_of_many_series_few_alarms_are_false_and_every_fall_is_found() -> None:
    found = many_series(series=60, fallen=6, results=500, runs=3, chance=random.Random(7))
    assert found.found == 1.0
    assert found.simulated <= 0.1


def test_a_fall_within_the_baseline_s_own_error_has_no_designed_delay() -> None:
    assert designed_delay(0.85, 0.8, 0.1, EVERY, 0.9) == float("inf")
    assert designed_delay(0.7, 0.8, 0.1, EVERY, 0.9) < float("inf")
