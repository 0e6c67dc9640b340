"""Falls and false alarms of ``drop`` on random traffic whose truth is known; in full: `bench/alert_rates.py`."""

import random
from functools import partial
from statistics import median

from bench.alert_rates import alarms, cusum, look_for_drop
from bench.alert_traffic import Traffic

from build import each

DAY = 24 * 60
EVERY = 180  # minutes between looks: fewer see a little less


def alarms_of(traffic: Traffic, days: int, by: float, seed: int = 1) -> list[int]:
    return alarms(traffic.steps(14 + days, random.Random(seed)), partial(look_for_drop, by=by), every=EVERY)


@each(
    ("traffic", "by"),
    [
        (Traffic(0.999, 2000, fall=0.009, falls_on=14), 0.01),
        (Traffic(0.97, 2000, fall=0.05, falls_on=14), 0.05),
        (Traffic(0.85, 500, fall=0.1, falls_on=14), 0.1),
        (Traffic(0.97, 50, fall=0.1, falls_on=14), 0.1),
    ],
)
def test_a_fall_by_as_much_as_is_asked_for_is_found(traffic: Traffic, by: float) -> None:
    assert alarms_of(traffic, 7, by)


def test_a_fall_is_found_within_three_times_the_time_of_a_cusum_that_knows_both_shares() -> None:
    """With a threshold of 7 that has one false alarm in 30 days on 2,000 results a day (`threshold_of`)."""
    ours, yardstick = list[int](), list[int]()
    for seed in range(5):
        steps = Traffic(0.97, 2000, fall=0.1, falls_on=14).steps(15, random.Random(seed))
        ours.append(alarms(steps, every=5)[0] - 14 * DAY)
        yardstick.append(cusum(steps, 0.97, 0.87, 7.0, 14)[0] - 14 * DAY)
    assert median(ours) <= 3 * median(yardstick)


@each(
    ("traffic", "by"),
    [
        (Traffic(0.6, 2000, fall=0.03, falls_on=14), 0.1),
        (Traffic(0.97, 2000, fall=0.01, falls_on=14), 0.1),
        (Traffic(0.96, 2000, swing=8, weekend=0.1), 0.1),
        (Traffic(0.93, 2000, wander=0.03, memory=0.9), 0.1),
        (Traffic(0.93, 2000, wander=0.03, memory=0.99), 0.1),
        (Traffic(0.85, 2000, concentration=10), 0.1),
    ],
)
def test_small_falls_weekends_bursts_and_days_that_differ_anyway_are_no_alarms(traffic: Traffic, by: float) -> None:
    assert len(alarms_of(traffic, 30, by)) <= 2, "in 30 days one is promised at most, on average"


def test_few_results_of_which_none_was_bad_before_are_no_alarms() -> None:
    """A week of 35 results at 97 % is all good once in three times."""
    assert sum(len(alarms_of(Traffic(0.97, 5), 60, 0.1, seed)) for seed in range(4)) <= 8, "8 are promised at most"


def test_a_share_that_loses_a_little_each_day_is_found_within_a_month() -> None:
    steps = Traffic(0.97, 2000, falls_on=28, drift=0.002).steps(28 + 30, random.Random(3))
    assert alarms(steps, partial(look_for_drop, by=0.05), first_day=28, every=2 * EVERY)
