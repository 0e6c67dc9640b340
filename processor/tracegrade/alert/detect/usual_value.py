"""The usual value: the mean by the hour of the day of what is not negative, such as tokens, without incidents."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log, sqrt
from statistics import NormalDist, median

from tracegrade.alert.detect.bets import Bets
from tracegrade.alert.detect.evidence import HOURS
from tracegrade.alert.detect.moments import Moments, correlation, hourly, inflation, mean_of, season
from tracegrade.alert.detect.usual import BASELINE_ERROR

_NORMAL = NormalDist()
_QUARTER = 6 * 60
_LEAST_QUARTERS = 8
# A quarter of a day with so much evidence for a higher mean was an incident.
_NO_CHANCE = log(1000)


@dataclass(frozen=True, slots=True)
class UsualValue:
    """What is usual of a series of values.

    ``by_hour``: the mean by the hour of the day (UTC). ``mean``: of all hours, with its upper confidence bound
    ``high``. ``variance``: of single values. ``samples``: of how many values. ``dispersion``: the correlation of two
    values of one hour.
    """

    by_hour: tuple[float, ...]
    mean: float
    high: float
    variance: float
    samples: float
    dispersion: float


def usual_value_of(parts: Iterable[Moments]) -> UsualValue | None:
    """What is usual by `parts`; None without values, and where all of them are 0.

    The upper bound takes the mean as normally distributed: of values of any size, no number of them bounds the mean
    for certain.
    """
    hours = hourly(parts)
    samples, mean, variance = mean_of(hours)
    if not mean > 0:
        return None
    dispersion = correlation(hours)
    error = sqrt(variance * inflation(hours, dispersion) / samples)
    high = mean + _NORMAL.inv_cdf(1 - BASELINE_ERROR) * error
    return UsualValue(season(hours, dispersion), mean, high, variance, samples, dispersion)


def without_high_quarters(parts: Iterable[Moments], rise: float) -> list[Moments]:
    """`parts` without the quarters of days whose mean lies above that of the others, by the part `rise` or more.

    Their neighbours go with them, as in `without_incidents`. A few large values are no incident, however large: there
    must be evidence that the mean itself was higher.
    """
    parts = list(parts)
    quarters: dict[int, list[Moments]] = {}
    for part in parts:
        if part.samples > 0:
            quarters.setdefault(part.minute // _QUARTER, []).append(part)
    if len(quarters) < _LEAST_QUARTERS:
        return parts
    middle = median(mean_of(some)[1] for some in quarters.values())
    bound = max(middle, mean_of(parts)[1]) * (1 + rise)
    higher = {number: some for number, some in quarters.items() if mean_of(some)[1] > bound > 0}
    # What may be the incident itself says nothing about how much hours differ anyway.
    others = [part for number, some in quarters.items() if number not in higher for part in some]
    dispersion = correlation(hourly(others))
    high = [number for number, some in higher.items() if _is_above(some, bound, dispersion)]
    outside = {number + side for number in high for side in (-1, 0, 1)}
    return [part for part in parts if part.minute // _QUARTER not in outside]


def _is_above(parts: Iterable[Moments], bound: float, dispersion: float) -> bool:
    bets = Bets((bound,) * HOURS, dispersion)
    found = [0.0] * Bets.logs
    for hour in hourly(parts):
        bets.begin(0)
        found = [so_far + gain for so_far, gain in zip(found, bets.add(hour, hour.minutes), strict=True)]
    return max(found) > _NO_CHANCE
