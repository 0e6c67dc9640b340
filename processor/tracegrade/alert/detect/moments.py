"""Hours of results as moments: how their means differ by the hour of the day, and beyond chance.

Passes and fails are values of 1 and 0, so one arithmetic serves shares, and values of any size such as tokens.
"""

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import NamedTuple

from tracegrade.alert.detect.evidence import HOURS, MOST_DISPERSION

# Until the hours say more: a little, since results of one hour are seldom independent.
PRIOR_DISPERSION = 0.01
PRIOR_ERROR = 0.02
_HOUR = 60


class Moments(NamedTuple):
    """How many values came within ``minutes`` (at most an hour) from ``minute`` on, their sum, and that of squares.

    Values of a sample are counted by their weights, each at most 1.
    """

    minute: int
    minutes: int
    samples: float
    total: float
    squares: float


def mean_of(parts: Iterable[Moments]) -> tuple[float, float, float]:
    """The number of values in all `parts`, their mean and their variance; three times 0 without any."""
    count = total = squares = 0.0
    for part in parts:
        count += part.samples
        total += part.total
        squares += part.squares
    if not count:
        return 0.0, 0.0, 0.0
    mean = total / count
    return count, mean, max(0.0, squares / count - mean * mean)


def hourly(parts: Iterable[tuple[int, int, float, float, float]]) -> list[Moments]:
    """One for each hour that has values; `parts` are `Moments`, or tuples of the same."""
    found: dict[int, list[float]] = {}
    for minute, _, samples, total, squares in parts:
        if samples > 0:
            hour = minute // _HOUR * _HOUR
            if (sums := found.get(hour)) is None:
                found[hour] = [samples, total, squares]
            else:
                sums[0] += samples
                sums[1] += total
                sums[2] += squares
    return [Moments(hour, _HOUR, *sums) for hour, sums in found.items()]


def correlation(hours: Sequence[Moments], worth: float = 1.0) -> float:
    """The correlation of two values of one hour, by how much the means of the same hour of the day differ.

    An upper estimate, by one standard error. What hours of few values leave open, `PRIOR_DISPERSION` decides, of the
    variance of one value; of scores that count as `worth` passes and fails each, that is so much smaller.
    """
    excess = pairs = noise = 0.0
    for same_hour in by_hour_of_day(hours):
        samples, mean, chance = mean_of(same_hour)
        if len(same_hour) < 2 or samples < 2:
            continue
        for hour in same_hour:
            size = hour.samples
            left = 1 - size / samples  # the hour is itself a part of the mean that it is compared with
            excess += (hour.total - size * mean) ** 2 - size * chance * left
            pairs += size * (size - 1) * chance * left
            noise += (size * chance * left) ** 2
    found, error, precision = 0.0, 0.0, 0.0
    if pairs > 0:
        found = max(0.0, excess / pairs)
        error = sqrt(2 * noise) / pairs + found * sqrt(2 / len(hours))
        precision = 1 / error**2
    prior = (worth / PRIOR_ERROR) ** 2
    middle = (found * precision + PRIOR_DISPERSION / worth * prior) / (precision + prior)
    # What hours show beyond doubt, no prior takes back.
    return min(MOST_DISPERSION, max(middle + sqrt(1 / (precision + prior)), found - error))


def season(hours: Sequence[Moments], dispersion: float) -> tuple[float, ...]:
    """The mean by the hour of the day, each drawn towards the mean of all, by as much as chance may have moved it."""
    _, mean, variance = mean_of(hours)
    found = []
    for same_hour in by_hour_of_day(hours):
        samples, there, _ = mean_of(same_hour)
        noise = variance * inflation(same_hour, dispersion) / samples if samples else 0.0
        found.append((samples, there if samples else mean, noise))
    seen = [(samples, there, noise) for samples, there, noise in found if samples]
    weight = sum(samples for samples, _, _ in seen)
    between = sum(samples * ((there - mean) ** 2 - noise) for samples, there, noise in seen) / weight
    if between <= 0 or len(seen) < 2:
        return (mean,) * HOURS
    return tuple(
        mean + (there - mean) * between / (between + noise) if samples else mean for samples, there, noise in found
    )


def inflation(hours: Sequence[Moments], dispersion: float) -> float:
    """How many times the variance of a sum exceeds that of independent values."""
    samples = sum(hour.samples for hour in hours)
    squares = sum(hour.samples**2 for hour in hours)
    return 1 + max(0.0, squares / samples - 1) * dispersion if samples else 1.0


def by_hour_of_day(hours: Sequence[Moments]) -> list[list[Moments]]:
    """The hours by the hour of the day (UTC), 24 lists."""
    found: list[list[Moments]] = [[] for _ in range(HOURS)]
    for hour in hours:
        found[hour.minute // _HOUR % HOURS].append(hour)
    return found
