"""What is usual: the share of good results by the hour of the day, and how much hours differ beyond chance.

Both come from the hours of a baseline. The share of each hour of the day is drawn towards the share of all hours, by as
much as the hours of the day cannot be told apart: with few results there is no season to see.

A worked example: in a week, 14 of 20 results were good at 03:00 UTC and 2,850 of 3,000 in all, 95 %. If the hours of
the day lie about 5 points apart (variance 0.0025), and chance alone moves a share of 20 results by 4.9 points (variance
0.0024), then half of what is seen at 03:00 is believed: ``0.95 + 0.51 * (0.70 - 0.95)`` = 82 %.

Source: C. N. Morris, Parametric empirical Bayes inference, 1983; the correlation of results of one hour is the moment
estimator of the beta-binomial, as in J. C. Kleinman, Proportions with extraneous variance, 1973.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from tracegrade.alert.detect.bounds import chernoff_lower
from tracegrade.alert.detect.evidence import HOURS, Step
from tracegrade.alert.detect.moments import Moments, correlation, hourly, inflation, mean_of, season

# How often the lower bound of the usual share may be wrong.
BASELINE_ERROR = 0.05
# A quarter of a day this many usual deviations below the middle one was an incident, if the fall matters.
_OUTSIDE = 4.0
_QUARTER = 6 * 60
_LEAST_QUARTERS = 8


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
    samples, share, _ = mean_of(hours)
    if not samples:
        return None
    dispersion = correlation(hours, worth)
    # As many independent results tell as much.
    independent = samples / inflation(hours, dispersion)
    low = chernoff_lower(share, independent, BASELINE_ERROR)
    return Usual(season(hours, dispersion), share, low, samples, dispersion)


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
    """The correlation of two results of one hour, see `correlation`."""
    return correlation(_hours(steps), worth)


def _is_no_chance(good: float, bad: float, share: float) -> bool:
    return chernoff_lower(1 - good / (good + bad), good + bad, 0.001) > 1 - share


def _hours(steps: Iterable[Step]) -> list[Moments]:
    """Good results as values of 1, bad ones as 0."""
    return hourly(Moments(step.minute, step.minutes, step.good + step.bad, step.good, step.good) for step in steps)
