"""What is usual: the share of good results by the hour of the day, and how much hours differ beyond chance.

Both come from the hours of a baseline. The share of each hour of the day is drawn towards the share of all hours, by as
much as the hours of the day cannot be told apart: with few results there is no season to see.

A worked example: in a week, 14 of 20 results were good at 03:00 UTC and 2,850 of 3,000 in all, 95 %. If the hours of
the day lie about 5 points apart (variance 0.0025), and chance alone moves a share of 20 results by 4.9 points (variance
0.0024), then half of what is seen at 03:00 is believed: ``0.95 + 0.51 * (0.70 - 0.95)`` = 82 %.

Source: C. N. Morris, Parametric empirical Bayes inference, 1983; the correlation of results of one hour is the moment
estimator of the beta-binomial, as in J. C. Kleinman, Proportions with extraneous variance, 1973.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median

from tracegrade.alert.detect.bounds import chernoff_lower
from tracegrade.alert.detect.evidence import HOURS, Step

# How often the lower bound of the usual share may be wrong.
BASELINE_ERROR = 0.05
# Until the hours say more: a little, since results of one hour are seldom independent.
PRIOR_DISPERSION = 0.01
PRIOR_ERROR = 0.02
MOST_DISPERSION = 0.9
# A quarter of a day this many usual deviations below the middle one was an incident, if the fall matters.
_OUTSIDE = 4.0
_QUARTER = 6 * 60
_LEAST_QUARTERS = 8
_HOUR = 60


@dataclass(frozen=True, slots=True)
class Usual:
    """What is usual of a series.

    ``by_hour``: the share of good results by the hour of the day (UTC). ``share``: of all hours, with its lower
    confidence bound ``low``. ``samples``: of how many results (0: stated). ``dispersion``: the correlation of two
    results of one hour.
    """

    by_hour: tuple[float, ...]
    share: float
    low: float
    samples: float
    dispersion: float


def stated(share: float, dispersion: float) -> Usual:
    """What a rule states, which is exact."""
    return Usual((share,) * HOURS, share, share, 0, dispersion)


def usual_of(steps: Iterable[Step], worth: float = 1.0) -> Usual | None:
    """What is usual by `steps`, none longer than an hour; None without results. `worth`: see `dispersion_of`."""
    hours = _hours(steps)
    good = sum(step.good for step in hours)
    samples = good + sum(step.bad for step in hours)
    if not samples:
        return None
    share = good / samples
    dispersion = dispersion_of(hours, worth)
    by_hour = _season(hours, share, dispersion)
    # As many independent results tell as much.
    independent = samples / _inflation(hours, dispersion)
    return Usual(by_hour, share, chernoff_lower(share, independent, BASELINE_ERROR), samples, dispersion)


def without_incidents(steps: Iterable[Step], fall: float) -> list[Step]:
    """`steps` without the quarters of days whose share lies far below that of the others, by `fall` or more.

    Their neighbours go with them, since an incident begins and ends within one. A day at half the usual share would
    hide the next fall: by a lower mean, and by hours that seem to differ much anyway.
    """
    steps = list(steps)
    quarters: dict[int, tuple[float, float]] = {}
    for step in steps:
        good, bad = quarters.get(step.minute // _QUARTER, (0.0, 0.0))
        quarters[step.minute // _QUARTER] = good + step.good, bad + step.bad
    shares = {number: good / (good + bad) for number, (good, bad) in quarters.items() if good + bad > 0}
    if len(shares) < _LEAST_QUARTERS:
        return steps
    middle = median(shares.values())
    usual_deviation = 1.4826 * median(abs(share - middle) for share in shares.values())
    least = middle - max(fall, _OUTSIDE * usual_deviation)
    good, bad = map(sum, zip(*quarters.values(), strict=True))
    of_all = good / (good + bad)  # of few results each, the middle one may well be 100 %
    low = [number for number, share in shares.items() if share < least and _is_no_chance(*quarters[number], of_all)]
    outside = {number + side for number in low for side in (-1, 0, 1)}
    return [step for step in steps if step.minute // _QUARTER not in outside]


def dispersion_of(steps: Iterable[Step], worth: float = 1.0) -> float:
    """The correlation of two results of one hour, by how much the shares of the same hour of the day differ.

    An upper estimate, by one standard error. What hours of few results leave open, `PRIOR_DISPERSION` decides, of the
    variance of one result; of scores that count as `worth` passes and fails each, that is so much smaller.
    """
    hours = _hours(steps)
    excess = pairs = noise = 0.0
    for same_hour in _by_hour_of_day(hours):
        samples = sum(step.good + step.bad for step in same_hour)
        if len(same_hour) < 2 or samples < 2:
            continue
        share = sum(step.good for step in same_hour) / samples
        chance = share * (1 - share)
        for step in same_hour:
            size = step.good + step.bad
            left = 1 - size / samples  # the hour is itself a part of the mean that it is compared with
            excess += (step.good - size * share) ** 2 - size * chance * left
            pairs += size * (size - 1) * chance * left
            noise += (size * chance * left) ** 2
    found, precision = 0.0, 0.0
    if pairs > 0:
        found = max(0.0, excess / pairs)
        error = sqrt(2 * noise) / pairs + found * sqrt(2 / len(hours))
        precision = 1 / error**2
    prior = (worth / PRIOR_ERROR) ** 2
    middle = (found * precision + PRIOR_DISPERSION / worth * prior) / (precision + prior)
    return min(MOST_DISPERSION, middle + sqrt(1 / (precision + prior)))


def _season(hours: Sequence[Step], share: float, dispersion: float) -> tuple[float, ...]:
    """The share by the hour of the day, each drawn towards the share of all."""
    found = []
    for same_hour in _by_hour_of_day(hours):
        samples = sum(step.good + step.bad for step in same_hour)
        good = sum(step.good for step in same_hour)
        noise = share * (1 - share) * _inflation(same_hour, dispersion) / samples if samples else 0.0
        found.append((samples, good / samples if samples else share, noise))
    seen = [(samples, there, noise) for samples, there, noise in found if samples]
    weight = sum(samples for samples, _, _ in seen)
    between = sum(samples * ((there - share) ** 2 - noise) for samples, there, noise in seen) / weight
    if between <= 0 or len(seen) < 2:
        return (share,) * HOURS
    return tuple(
        share + (there - share) * between / (between + noise) if samples else share for samples, there, noise in found
    )


def _inflation(hours: Sequence[Step], dispersion: float) -> float:
    """How many times the variance of a sum exceeds that of independent results."""
    samples = sum(step.good + step.bad for step in hours)
    squares = sum((step.good + step.bad) ** 2 for step in hours)
    return 1 + max(0.0, squares / samples - 1) * dispersion if samples else 1.0


def _is_no_chance(good: float, bad: float, share: float) -> bool:
    return chernoff_lower(1 - good / (good + bad), good + bad, 0.001) > 1 - share


def _hours(steps: Iterable[Step]) -> list[Step]:
    """One step an hour."""
    steps = list(steps)
    if all(step.minutes == _HOUR for step in steps):
        return [step for step in steps if step.good + step.bad > 0]
    found: dict[int, Step] = {}
    for step in steps:
        hour = step.minute // _HOUR * _HOUR
        so_far = found.get(hour, Step(hour, _HOUR, 0.0, 0.0))
        found[hour] = so_far._replace(good=so_far.good + step.good, bad=so_far.bad + step.bad)
    return [step for step in found.values() if step.good + step.bad > 0]


def _by_hour_of_day(hours: Sequence[Step]) -> list[list[Step]]:
    found: list[list[Step]] = [[] for _ in range(HOURS)]
    for step in hours:
        found[step.minute // _HOUR % HOURS].append(step)
    return found
