from math import exp, sqrt
from random import Random

import pytest

from tracegrade.alert.detect.moments import Moments, correlation, hourly
from tracegrade.alert.detect.usual_value import usual_value_of, without_high_quarters


def hours(count: int, values: int, mean: float = 1.0, spread: float = 0.7, bursts: float = 0.0) -> list[Moments]:
    chance = Random(1)
    found = []
    for hour in range(count):
        own = mean * exp(bursts * chance.gauss(0, 1) - bursts**2 / 2)
        some = [own * exp(spread * chance.gauss(0, 1) - spread**2 / 2) for _ in range(values)]
        found.append(Moments(hour * 60, 60, values, sum(some), sum(value * value for value in some)))
    return found


def test_the_usual_mean_has_an_upper_bound_that_comes_closer_with_more_values() -> None:
    few, many = (usual_value_of(hours(168, values)) for values in (2, 50))
    assert few is not None
    assert many is not None
    assert few.high - few.mean > 3 * (many.high - many.mean)
    assert many.mean < many.high
    assert many.mean == pytest.approx(1.0, abs=0.05)


def test_without_values_or_with_zeros_alone_nothing_is_usual() -> None:
    assert usual_value_of([]) is None
    assert usual_value_of([Moments(0, 60, 50, 0.0, 0.0)]) is None


@pytest.mark.parametrize(("spread", "bursts"), [(0.3, 0.5), (0.0, 0.5), (0.7, 0.2)])
def test_the_correlation_within_hours_is_found_however_strong(spread: float, bursts: float) -> None:
    between, all_of_it = exp(bursts**2) - 1, exp(bursts**2 + spread**2) - 1
    found = correlation(hourly(hours(168, 80, spread=spread, bursts=bursts)))
    assert found == pytest.approx(between / all_of_it, rel=0.35)


def test_one_large_value_is_no_incident_and_a_bad_day_is() -> None:
    parts = hours(168, 20)
    lone = [*parts]
    minute, minutes, count, total, squares = parts[50]
    lone[50] = Moments(minute, minutes, count + 1, total + 2000, squares + 2000**2)
    assert without_high_quarters(lone, 0.3) == lone
    bad = [
        part if part.minute // 1440 != 3 else part._replace(total=part.total * 5, squares=part.squares * 25)
        for part in parts
    ]
    left = without_high_quarters(bad, 0.3)
    assert {part.minute // 1440 for part in left} == {0, 1, 2, 4, 5, 6}
    usual = usual_value_of(left)
    assert usual is not None
    assert usual.mean == pytest.approx(1.0, abs=4 * sqrt(0.64 / (140 * 20)))
