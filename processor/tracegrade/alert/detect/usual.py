"""What is usual: the share of good results by the hour and the day of the week, and how much it differs beyond chance.

All of it comes from the hours of a baseline:

- The share of each hour of the day is drawn towards the share of all hours, by as much as the hours of the day cannot
  be told apart: with few results there is no season to see.
- A day of the week that was far worse than most is expected to be worse again: one week is enough to know its weekend.
  One that was better is not expected to be better again.
- Results of one hour go together by their ``dispersion``. Hours that follow each other may be alike, too: quarters of
  days then vary ``lasting`` times as much as independent hours would, and so many hours count as one.
- The level of the days to come differs from that of the baseline. How well it is known says ``known_by``: as if so many
  bad results had been counted. If levels do not differ, these are the bad results of the baseline. They are fewer the
  more quarters of days, in all the history that is stored, lie off the baseline beyond chance; and fewer again if
  successive days are alike, since then a week shows little of how far levels go.

A worked example of the first: in a week, 14 of 20 results were good at 03:00 UTC and 2,850 of 3,000 in all, 95 %. If
the hours of the day lie about 5 points apart (variance 0.0025), and chance alone moves a share of 20 results by 4.9
points (variance 0.0024), then half of what is seen at 03:00 is believed: ``0.95 + 0.51 * (0.70 - 0.95)`` = 82 %.

Source: C. N. Morris, Parametric empirical Bayes inference, 1983; the correlation of results of one hour is the moment
estimator of the beta-binomial, as in J. C. Kleinman, Proportions with extraneous variance, 1973; days that follow each
other are found by the mean square successive difference of J. von Neumann, 1941.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import inf, sqrt
from statistics import median
from typing import NamedTuple

from tracegrade.alert.detect.bounds import chernoff_lower
from tracegrade.alert.detect.evidence import HOURS, Step, certain
from tracegrade.alert.detect.moments import Moments, correlation, hourly, inflation, mean_of, season

# How often the lower bound of the usual share may be wrong.
BASELINE_ERROR = 0.05
# A quarter of a day this many usual deviations below the middle one was an incident, if the fall matters.
_OUTSIDE = 4.0
_QUARTER = 6 * 60
_DAY = 24 * 60
_LEAST_QUARTERS = 8
# From so many on, they are a weekend, or how the traffic is.
_LONGEST_INCIDENT = 5
# So many bad results more than were counted (and good ones) are the median of a gamma distribution for a count.
_UNSEEN = 0.2
# Until quarters of days say more: the variance of log odds by which levels differ, and the error of that.
_PRIOR_WANDER = 0.01
_PRIOR_WANDER_ERROR = 0.01
_WEEK = 7
_BELIEVED = 3.0


@dataclass(frozen=True, slots=True)
class Usual:
    """What is usual of a series.

    ``by_hour``: the share of good results by the hour of the day (UTC), 24, or of the week (from Thursday on), 168; of
    few results, nearer to one half. ``share``: of all hours, with its lower confidence bound ``low``. ``samples``: of
    how many results (0: stated).
    ``dispersion``: the correlation of two results of one hour. ``known_by`` and ``lasting``: see above.
    """

    by_hour: tuple[float, ...]
    share: float
    low: float
    samples: float
    dispersion: float
    known_by: float = inf
    lasting: float = 1.0


def stated(share: float, history: Usual | None, worth: float = 1.0) -> Usual:
    """A share that is exact; how results depend on each other is known by `history`, if there is any.

    `worth`: see `dispersion_of`.
    """
    if history is None:
        return Usual((share,) * HOURS, share, share, 0, correlation((), worth))
    return Usual((share,) * HOURS, share, share, 0, history.dispersion, lasting=history.lasting)


def usuals_of(stretches: Iterable[Iterable[Step]], fall: float, worth: float = 1.0) -> list[Usual | None]:
    """What is usual by the first stretch of a history that has results, and by the last one, both without incidents.

    How far levels lie from them is that of all stretches. `fall` and `worth`: see `without_incidents` and
    `dispersion_of`.
    """
    known = [_hours(without_incidents(steps, fall)) for steps in stretches]
    history = [*chain.from_iterable(known)]
    first = next((hours for hours in known if hours), [])
    return [_usual_of(hours, worth, history) for hours in (first, known[-1])]


def usual_of(steps: Iterable[Step], worth: float = 1.0) -> Usual | None:
    """What is usual by `steps`, none longer than an hour; None without results. `worth`: see `dispersion_of`."""
    hours = _hours(steps)
    return _usual_of(hours, worth, hours)


def _usual_of(hours: Sequence[Moments], worth: float, history: Sequence[Moments]) -> Usual | None:
    """What is usual by `hours`; `history` shows how far levels lie from theirs, which it includes."""
    samples, share, _ = mean_of(hours)
    if not samples:
        return None
    dispersion = correlation(hours, worth)
    days = _days(_quarters(hours, season(hours, dispersion), dispersion))
    of_like_days = [_moved(hour, -days[hour.minute // _DAY % _WEEK]) for hour in hours]
    dispersion = correlation(of_like_days, worth)
    samples, share, _ = mean_of(of_like_days)
    # As many independent results tell as much.
    independent = samples / inflation(hours, dispersion)
    low = chernoff_lower(share, independent, BASELINE_ERROR)
    of_day = season(of_like_days, dispersion)
    by_hour = tuple(of_day[hour % HOURS] + days[hour // HOURS] for hour in range(_WEEK * HOURS))
    quarters = _quarters(hours, by_hour, dispersion)
    levels = _quarters(history, by_hour, dispersion)
    known_by = known_as(share, independent, _wander(levels))
    # The middle of what is likely where so many bad results were counted: none of few does not say that none ever is.
    nearer = 2 * _UNSEEN * (0.5 - share) / (independent + 2 * _UNSEEN)
    by_hour = tuple(there + nearer for there in by_hour)
    return Usual(by_hour, share, low, samples, dispersion, known_by, _lasting(quarters))


def _moved(hour: Moments, by: float) -> Moments:
    """As if its share had been another one by so much."""
    total = min(hour.samples, max(0.0, hour.total + by * hour.samples))
    return Moments(hour.minute, hour.minutes, hour.samples, total, total)


class _Quarter(NamedTuple):
    """A quarter of a day: how many results came, and how many more good ones than usual.

    ``chance``: the variance of that, were hours independent. ``moves``: by how much a unit of log odds changes it.
    """

    day: int
    samples: float
    off: float
    chance: float
    moves: float


def _quarters(hours: Sequence[Moments], by_hour: Sequence[float], dispersion: float) -> list[_Quarter]:
    shares = [certain(share) for share in by_hour]
    sums: dict[int, list[float]] = {}
    for minute, _, size, total, _ in hours:
        share = shares[minute // 60 % len(shares)]
        variance = size * share * (1 - share)
        so_far = sums.setdefault(minute // _QUARTER, [0.0, 0.0, 0.0, 0.0])
        so_far[0] += size
        so_far[1] += total - size * share
        so_far[2] += variance * (1 + max(0.0, size - 1) * dispersion)
        so_far[3] += variance
    return [_Quarter(number * _QUARTER // _DAY, *found) for number, found in sums.items()]


def _by_day(quarters: Iterable[_Quarter]) -> list[list[_Quarter]]:
    """The quarters of each day, in order of time."""
    found: dict[int, list[_Quarter]] = {}
    for quarter in quarters:
        found.setdefault(quarter.day, []).append(quarter)
    return [found[day] for day in sorted(found)]


def _lasting(quarters: Iterable[_Quarter]) -> float:
    """How many times more quarters of days vary than those of independent hours would."""
    off = chance = 0.0
    for quarter in quarters:
        off += quarter.off**2
        chance += quarter.chance
    return max(1.0, off / chance)


def _lasting_in_days(quarters: Sequence[_Quarter]) -> float:
    """As `_lasting`, only by how much the quarters of one day differ."""
    found = []
    for of_day in _by_day(quarters):
        if (count := len(of_day)) > 1:
            share = sum(quarter.off for quarter in of_day) / sum(quarter.samples for quarter in of_day)
            part = (count - 1) / count  # their own mean is nearer to them than the usual one
            found += [one._replace(off=one.off - share * one.samples, chance=one.chance * part) for one in of_day]
    return _lasting(found) if found else 1.0


def _days(quarters: Sequence[_Quarter]) -> list[float]:
    """By how much the share of each day of the week lies below that of most: seven numbers, none above 0.

    A day is believed to be worse again if it lies three times as far below as chance and the better days differ.
    """
    lasting = _lasting_in_days(quarters)
    found: dict[int, tuple[float, float]] = {}
    for weekday in range(_WEEK):
        own = [quarter for quarter in quarters if quarter.day % _WEEK == weekday]
        if own:
            samples = sum(quarter.samples for quarter in own)
            off = sum(quarter.off for quarter in own) / samples
            found[weekday] = off, sum(quarter.chance for quarter in own) * lasting / samples**2
    most = median(off for off, _ in found.values())
    better = [(off - most) ** 2 for off, _ in found.values() if off > most]
    differ = sum(better) / len(better) if better else 0.0
    days = [0.0] * _WEEK
    for weekday, (off, chance) in found.items():
        if off < most and (off - most) ** 2 > _BELIEVED**2 * (chance + differ):
            days[weekday] = off - most
    return days


def known_as(share: float, independent: float, wander: float = _PRIOR_WANDER) -> float:
    """From how many bad results the level of the days to come is known, by so many results that are independent."""
    error = 1 / (independent * (1 - share) + 0.5) + 1 / (independent * share + 0.5)
    return 1 / (error + wander)


def _wander(quarters: Sequence[_Quarter]) -> float:
    """The variance of the levels to come about that of the baseline, in log odds.

    It is that of quarters of days beyond what independent hours explain, times `_slowness`: of levels that wander for
    days, history shows only a part.
    """
    slowness = _slowness([sum(one.off for one in day) / sum(one.moves for one in day) for day in _by_day(quarters)])
    moves = sum(quarter.moves**2 for quarter in quarters)
    seen = max(0.0, sum(quarter.off**2 - quarter.chance for quarter in quarters) / moves) * slowness
    error = sqrt(2 * sum(quarter.chance**2 for quarter in quarters)) / moves
    precision, prior = 1 / error**2, 1 / _PRIOR_WANDER_ERROR**2
    middle = (seen * precision + _PRIOR_WANDER * prior) / (precision + prior)
    # By half a standard error more.
    of_days = middle * sqrt(2 * slowness / len(_by_day(quarters)))
    return middle + (sqrt(1 / (precision + prior)) + of_days) / 2


def _slowness(levels: Sequence[float]) -> float:
    """How many days tell as much as one that is independent: ``(1 + r) / (1 - r)``, of days with the correlation r.

    `levels` are those of days, as distances from the usual one. The mean square of successive differences is
    ``2 * (1 - r)`` times theirs.
    """
    square = sum(level**2 for level in levels) / len(levels)
    steps = [(one - other) ** 2 for one, other in pairwise(levels)]
    if not any(steps):
        return 1.0
    return min(len(levels), max(1.0, 4 * square * len(steps) / sum(steps) - 1))


def without_incidents(steps: Iterable[Step], fall: float) -> list[Step]:
    """`steps` without the one incident, of a day at most, in which the share lay far below the usual one, by `fall`.

    The quarters of days in which it began and ended go with it. A day at half the usual share would hide the next
    fall: by a lower mean, and by hours that seem to differ much anyway. What lasts longer stays, since the other days
    of the week are not expected to be like it; and what comes again stays, since that is how the traffic is.
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
    low = [
        number
        for number, share in shares.items()
        if share < middle - fall / 2 and _is_no_chance(*quarters[number], of_all)
    ]
    if not low or min(map(shares.__getitem__, low)) >= least or max(low) - min(low) >= _LONGEST_INCIDENT:
        return steps
    first, last = min(low) - 1, max(low) + 1
    return [step for step in steps if not first <= step.minute // _QUARTER <= last]


def dispersion_of(steps: Iterable[Step], worth: float = 1.0) -> float:
    """The correlation of two results of one hour, see `correlation`."""
    return correlation(_hours(steps), worth)


def _is_no_chance(good: float, bad: float, share: float) -> bool:
    return chernoff_lower(1 - good / (good + bad), good + bad, 0.001) > 1 - share


def _hours(steps: Iterable[Step]) -> list[Moments]:
    """Good results as values of 1, bad ones as 0."""
    return hourly((minute, minutes, good + bad, good, good) for minute, minutes, good, bad in steps)
