"""The detector against its definition; how it does on random traffic is in `bench/alert_rates.py`."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import exp, log

import pytest

from build import each
from tracegrade.alert.detect.evidence import HOURS, Change, Evidence, Step
from tracegrade.alert.detect.evidence import look_for as look_back_for

DAY_S = 86_400.0
MONTH_S = 30 * DAY_S


def flat(without: float, *after: float) -> Change:
    return Change((without,) * HOURS, [(share,) * HOURS for share in after])


def look_for(change: Change, steps: list[Step], dispersion: float, false_alarm_every_s: float) -> Evidence:
    return look_back_for(change, reversed(steps), dispersion, false_alarm_every_s)


def hours(*counts: tuple[float, float], first: int = 0) -> list[Step]:
    return [Step((first + number) * 60, 60, good, bad) for number, (good, bad) in enumerate(counts)]


def test_the_worked_example_of_the_module_is_true() -> None:
    shown = []
    for number in range(1, 5):
        steps = hours((9, 1), (6, 4), (6, 4), (6, 4))[:number]
        found = look_for(flat(0.9, 0.7), steps, 0.0, MONTH_S)
        shown.append((f"{found.value:.3g}", found.since))
    assert shown == [("0.000434", None), ("0.0327", 60), ("0.611", 60), ("11", 60)]


@each("dispersion", [0.0, 0.05, 0.5])
@each("true_share", [0.9, 0.95])
def test_a_time_adds_its_part_at_most_while_nothing_has_fallen(true_share: float, dispersion: float) -> None:
    """Exactly, over all outcomes of two hours of three results, drawn from an urn each: 2 h of 30 days at most."""

    def chance(good: int) -> float:
        """Of one sequence of draws."""
        urn = None if dispersion == 0 else 1 / dispersion - 1
        found, drawn_good, drawn = 1.0, 0, 0
        for draw in [True] * good + [False] * (3 - good):
            share = true_share if urn is None else (urn * true_share + drawn_good) / (urn + drawn)
            found *= share if draw else 1 - share
            drawn_good, drawn = drawn_good + draw, drawn + 1
        return found

    mean = 0.0
    for outcomes in product((0, 1), repeat=6):
        good = sum(outcomes[:3]), sum(outcomes[3:])
        steps = hours(*[(some, 3 - some) for some in good])
        mean += chance(good[0]) * chance(good[1]) * look_for(flat(0.9, 0.8, 0.6), steps, dispersion, MONTH_S).value
    assert mean <= 2 / 720 + 1e-12
    if true_share == 0.9:
        assert mean == pytest.approx(2 / 720)


def test_the_time_counts_and_not_the_number_of_results() -> None:
    """Two results in 30 days bring as much evidence by chance as two millions."""
    few = [Step(0, 60, 1, 0), Step(30 * 24 * 60 - 60, 60, 0, 1)]
    found = look_for(flat(0.9, 0.5), few, 0.0, MONTH_S)
    of_good, of_bad = 0.5 / 0.9, 0.5 / 0.1
    assert found.value == pytest.approx((of_good / 720 + 719 / 720) * of_bad)


def test_an_hour_tells_at_most_as_much_as_its_dispersion_allows() -> None:
    """A thousand fails of one hour: without dispersion beyond doubt, with 0.5 next to nothing, and never more."""
    change = flat(0.9, 0.7)
    steps = hours((0, 1000))
    assert look_for(change, steps, 0.0, MONTH_S).value > 1e6
    assert look_for(change, steps, 0.5, MONTH_S).value < 0.02
    six = hours(*[(0, 1000)] * 12)
    assert look_for(change, six, 0.5, MONTH_S).value > 1, "hours are independent of each other"


def test_a_part_of_an_hour_tells_less_than_a_whole_one() -> None:
    change = flat(0.9, 0.7)
    minutes = [Step(0, 5, 0, 20)]
    assert look_for(change, minutes, 0.05, 60.0 * 5).value < look_for(change, hours((0, 20)), 0.05, 3600.0).value


def test_a_change_in_the_middle_of_an_hour_is_found_where_it_began() -> None:
    steps = [*hours((95, 5), (95, 5)), *[Step(120 + 5 * n, 5, 10, 0) for n in range(6)]]
    steps += [Step(150 + 5 * n, 5, 2, 8) for n in range(4)]
    found = look_for(flat(0.9, 0.7, 0.3), steps, 0.001, MONTH_S)
    assert found.value > 1
    assert found.since == 150


def test_each_hour_of_the_day_is_compared_with_its_own_share() -> None:
    """80 % at night is usual, at noon it is a fall."""
    usual = [0.8 if hour < 6 else 0.95 for hour in range(HOURS)]
    change = Change(usual, [[share - 0.15 for share in usual]])
    night, noon = hours((80, 20), first=3), hours((80, 20), first=12)
    assert look_for(change, night, 0.0, MONTH_S).value < 1e-4
    assert look_for(change, noon, 0.0, MONTH_S).value > 1


def test_shares_beyond_what_can_be_known_are_watched_all_the_same() -> None:
    for change in (flat(1.0, 0.9), flat(0.05, 0.0), flat(0.5, 0.0)):
        assert look_for(change, hours((0, 5000)), 0.0, MONTH_S).value > 1


def test_scores_say_as_much_as_passes_and_fails_of_the_same_mean() -> None:
    found = look_for(flat(0.9, 0.8), hours((8.0, 2.0)), 0.0, MONTH_S)
    assert found.value == pytest.approx(exp(8 * log(0.8 / 0.9) + 2 * log(0.2 / 0.1)) / 720)


def test_without_results_there_is_nothing() -> None:
    assert look_for(flat(0.9, 0.8), hours((0, 0)), 0.0, MONTH_S).value == 0


def test_an_old_fall_that_was_followed_by_much_that_is_well_is_not_read_again() -> None:
    steps = hours((0, 50), *[(100, 0)] * 40)
    read = []

    def latest_first() -> Iterator[Step]:
        for step in reversed(steps):
            read.append(step)
            yield step

    assert look_back_for(flat(0.9, 0.5), latest_first(), 0.0, MONTH_S).value < 1e-3
    assert len(read) < 5


def test_a_level_that_is_known_by_few_bad_results_may_lie_lower_and_then_proves_no_change() -> None:
    """85 % in place of 90 %: next to impossible for a share that is certain, and nothing new for one that is not."""
    day = hours(*[(255, 45)] * 24)
    certain = look_for(flat(0.9, 0.8), day, 0.0, MONTH_S)
    assert certain.value > 1e6
    nearly = look_for(replace(flat(0.9, 0.8), known_by=1e7), day, 0.0, MONTH_S)
    assert log(nearly.value) == pytest.approx(log(certain.value), rel=0.02)
    assert look_for(replace(flat(0.9, 0.8), known_by=10), day, 0.0, MONTH_S).value < 1


def test_hours_that_last_tell_as_much_as_fewer() -> None:
    one = look_for(flat(0.9, 0.7), hours((70, 30)), 0.0, MONTH_S)
    six = look_for(replace(flat(0.9, 0.7), lasting=6.0), hours(*[(70, 30)] * 6), 0.0, MONTH_S)
    assert one.value < six.value < 10 * one.value, "six hours are one, and each may be the first"
