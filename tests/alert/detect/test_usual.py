"""What is usual, of random hours whose share, season and dispersion are known."""

import random
from math import log, sqrt

import pytest
from bench.alert_traffic import Traffic, by_hour

from build import each
from tracegrade.alert.detect.evidence import HOURS, Step
from tracegrade.alert.detect.moments import PRIOR_DISPERSION
from tracegrade.alert.detect.steps import good_and_bad
from tracegrade.alert.detect.usual import dispersion_of, usual_of, usuals_of, without_incidents

WEEK = 7


def week(traffic: Traffic, seed: int = 1) -> list[Step]:
    return by_hour(traffic.steps(WEEK, random.Random(seed)))


def test_a_share_is_known_as_well_as_so_many_results_tell() -> None:
    usual = usual_of(week(Traffic(0.9, 2000)))
    assert usual is not None
    assert usual.samples == pytest.approx(14_000, rel=0.05)
    assert usual.low < 0.9 < usual.share + 0.01
    assert usual.share - usual.low < 0.01


def test_without_results_nothing_is_usual() -> None:
    assert usual_of([]) is None
    assert usual_of([Step(0, 60, 0, 0)]) is None


@pytest.mark.parametrize(("traffic", "true"), [(Traffic(0.9, 5000), 0.0), (Traffic(0.9, 5000, 0.05, 5), 0.0)])
def test_independent_results_show_next_to_no_dispersion_whatever_the_season(traffic: Traffic, true: float) -> None:
    assert true <= dispersion_of(week(traffic)) < 0.004


@each(("concentration", "true"), [(10.0, 0.5 / 11), (30.0, 0.5 / 31)])
@each("a_day", [2000, 20_000])
def test_bursts_show_as_dispersion(concentration: float, true: float, a_day: float) -> None:
    """Half of what two results of one burst have in common: an hour has two bursts."""
    found = [dispersion_of(week(Traffic(0.9, a_day, concentration=concentration), seed)) for seed in range(8)]
    assert true * 0.9 < sum(found) / len(found) < true * 1.5


def test_few_hours_leave_it_at_what_is_assumed() -> None:
    assert dispersion_of([]) > PRIOR_DISPERSION
    assert dispersion_of(week(Traffic(0.9, 5))) > PRIOR_DISPERSION


def test_the_hour_of_the_day_is_seen_where_results_tell_it_and_not_where_they_do_not() -> None:
    seen = usual_of(week(Traffic(0.9, 20_000, season=0.05)))
    unseen = usual_of(week(Traffic(0.9, 50, season=0.05)))
    assert seen is not None
    assert unseen is not None
    assert max(seen.by_hour) - min(seen.by_hour) == pytest.approx(0.1, abs=0.03)
    assert max(unseen.by_hour) - min(unseen.by_hour) < 0.1, "of 15 results an hour of the day"
    flat = usual_of(week(Traffic(0.9, 20_000)))
    assert flat is not None
    assert max(flat.by_hour) - min(flat.by_hour) < 0.01


def test_that_none_of_few_results_was_bad_does_not_say_that_none_ever_is() -> None:
    few, many = (usual_of([Step(hour * 60, 60, count, 0) for hour in range(0, 168, 6)]) for count in (1, 1000))
    assert few is not None
    assert many is not None
    assert few.share == many.share == 1.0
    assert 0.99 < few.by_hour[0] < 0.995
    assert many.by_hour[0] > 0.9995


def test_hours_of_the_day_without_results_have_the_share_of_all() -> None:
    usual = usual_of([Step(day * 1440 + hour * 60, 60, 9, 1) for day in range(7) for hour in range(8, 18)])
    assert usual is not None
    assert len(usual.by_hour) == 7 * HOURS
    assert usual.by_hour[3] == pytest.approx(0.9, abs=0.001)


@pytest.mark.parametrize("memory", [0.97, 0.99])
def test_levels_of_days_to_come_lie_no_further_from_the_usual_one_than_it_says(memory: float) -> None:
    """In standard errors of the log odds: without the older weeks 3, and as if days were independent 1.9."""
    found = []
    for seed in range(12):
        steps = by_hour(Traffic(0.93, 2000, wander=0.03, memory=memory).steps(4 * WEEK, random.Random(seed)))
        *history, to_come = (steps[week : week + WEEK * HOURS] for week in range(0, len(steps), WEEK * HOURS))
        usual = usuals_of(reversed(history), 0.1)[0]
        assert usual is not None
        for day in range(0, len(to_come), HOURS):
            good, bad = good_and_bad(to_come[day : day + HOURS])
            found.append((log(bad / good) - log((1 - usual.share) / usual.share)) ** 2 * usual.known_by)
    assert sqrt(sum(found) / len(found)) < 1.5


@pytest.mark.parametrize("traffic", [Traffic(0.97, 2000, incident=(4,)), Traffic(0.97, 20_000, incident=(0, 1))])
def test_an_incident_is_no_part_of_what_is_usual(traffic: Traffic) -> None:
    usual = usual_of(without_incidents(week(traffic), 0.1))
    assert usual is not None
    assert usual.share == pytest.approx(0.97, abs=0.005)
    assert usual.dispersion < 0.01


@each(
    "traffic",
    [Traffic(0.97, 2000), Traffic(0.9, 2000, 0.05, 10), Traffic(0.85, 20_000, concentration=10), Traffic(0.9, 20)],
)
def test_seasons_bursts_and_chance_are_no_incidents(traffic: Traffic) -> None:
    for seed in range(5):
        steps = week(traffic, seed)
        assert len(without_incidents(steps, 0.1)) >= len(steps) * 0.95
