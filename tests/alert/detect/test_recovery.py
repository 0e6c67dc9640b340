"""The way back after a fall: what shows it, how soon an alert ends, and how seldom while the level stays."""

import random
from statistics import median

import pytest
from bench.alert_ends import BELOW, alternations, end
from bench.alert_releases import DROP
from bench.alert_traffic import Traffic

from tracegrade.alert.detect.evidence import Step
from tracegrade.alert.detect.recovery import WayBack, look_back

MONTH_S = 30 * 86_400.0
HOURS = 24


def flat(*shares: float) -> list[list[float]]:
    return [[share] * HOURS for share in shares]


def hours_until_back(was: float, now: float) -> int | None:
    """After a day at one level, how many hours at another end it; 20 results each hour, usually 97 % pass."""
    way = WayBack(flat(0.87, 0.77, 0.57, 0.92), flat(0.97))
    steps = [Step(hour * 60, 60, 20 * was, 20 * (1 - was)) for hour in range(24)]
    for hour in range(24, 24 * 8):
        steps.append(Step(hour * 60, 60, 20 * now, 20 * (1 - now)))
        if look_back(way, reversed(steps), 0.0, MONTH_S, (hour + 1) * 60).value >= 1:
            return hour - 23
    return None


def test_the_worked_example() -> None:
    steps = [Step(60, 60, 39, 1), Step(0, 60, 40, 12)]
    found = look_back(WayBack(flat(0.87, 0.77), flat(0.97)), steps, 0.0, MONTH_S, 120)
    assert found.value == pytest.approx(72 / 720, rel=0.02)
    assert found.since == 60


def test_a_deep_fall_is_over_sooner_than_a_small_one() -> None:
    deep, small, smaller = (hours_until_back(was, 0.97) for was in (0.77, 0.87, 0.92))
    assert deep is not None
    assert small is not None
    assert smaller is not None
    assert deep < small < smaller


def test_a_share_that_is_back_in_part_is_not_back() -> None:
    assert hours_until_back(0.57, 0.87) is None
    assert hours_until_back(0.77, 0.87) is None


def test_a_fall_is_over_about_as_soon_as_it_was_found() -> None:
    chance = random.Random(11)
    for alert, fall in ((DROP, 0.1), (DROP, 0.2), (BELOW, 0.17)):
        found = [end(alert, Traffic(0.97, 2000, fall=fall), 10, chance) for _ in range(2)]
        begins, ends, again = zip(*found, strict=True)
        assert median(ends) <= 2 * median(begins) + 30, alert
        assert sum(again) == 0, alert


def test_a_level_that_stays_lower_does_not_end_the_alert() -> None:
    chance = random.Random(12)
    for alert, traffic in (
        (DROP, Traffic(0.97, 2000, fall=0.1)),
        (BELOW, Traffic(0.97, 2000, fall=0.1)),
        (DROP, Traffic(0.97, 2000, fall=0.07)),
    ):
        fired, again = alternations(alert, traffic, 14, chance, 180)
        assert fired
        assert again <= 1, "one wrong end in 30 days is allowed, on average"


def test_the_end_is_found_also_among_millions_of_results() -> None:
    """What a level that explains them badly counts for is smaller than any number that a machine knows."""
    way = WayBack(flat(0.87, 0.77, 0.57, 0.92), flat(0.97))
    for a_minute in (10, 1_000, 100_000):
        fell = [Step(minute, 1, 0.5 * a_minute, 0.5 * a_minute) for minute in range(120)]
        back = [Step(minute, 1, 0.97 * a_minute, 0.03 * a_minute) for minute in range(120, 240)]
        assert look_back(way, reversed([*fell, *back]), 0.0, MONTH_S, 240).value > 1
        assert look_back(way, reversed(fell), 0.0, MONTH_S, 120).value < 1
