"""``of: tokens | cost | duration``: has the mean of values risen above a bound, or against what was usual?

``above`` fires on evidence against every mean up to the bound, and is resolved on evidence against every mean from
``resolve_at`` (the bound, unless set) on. ``rise`` fires on evidence against every rise of half of ``by`` or less, by
the hour of the day, and is resolved on evidence against every mean that is still higher by ``by`` or more. So a mean
that stays where it is fires once, at most; one that ended may still be somewhat higher than usual. What is usual is the
mean by the hour of the day, without incidents.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import log, sqrt
from statistics import NormalDist, median

from tracegrade.alert.detect.bets import Bets
from tracegrade.alert.detect.evidence import HOURS, weigh
from tracegrade.alert.detect.finding import Finding, Observations, measure, measure_all
from tracegrade.alert.detect.moments import Moments, correlation, hourly, inflation, mean_of, season
from tracegrade.alert.detect.steps import remembered, values_of
from tracegrade.alert.detect.usual import BASELINE_ERROR
from tracegrade.model.tally import total
from tracegrade.rule.alert import Alert
from tracegrade.rule.alert_forms import Rise
from tracegrade.rule.rule import Rule

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


_DAY = 24 * 60
# Of the usual mean: where hours of the day seem to bring nearly nothing, a first value is no rise.
_LEAST_PART = 0.05


def above(bound: float, dispersion: float) -> Bets:
    """The bets on a mean above `bound`."""
    return Bets((bound,) * HOURS, dispersion)


def back(bound: float, dispersion: float, spread: float) -> Bets:
    """The bets on a mean below `bound`; `spread` is the mean of squares of ``1 - x / bound`` that history shows."""
    return Bets((bound,) * HOURS, dispersion, spread)


def risen(usual: UsualValue, by: float) -> Bets:
    """The bets on a rise of the usual mean.

    The baseline's own error is on the side of no rise: it does not become alarms.
    """
    return Bets(_bounds(usual, usual.high / usual.mean * (1 + by / 2)), usual.dispersion)


def fallen_back(usual: UsualValue, was: float, by: float) -> Bets:
    """The bets on the end of a rise from the mean `was`."""
    level = was / usual.mean * (1 + by)
    spread = _spread(usual.mean, usual.variance, usual.mean * level) if usual.samples else 0.0
    return Bets(_bounds(usual, level), usual.dispersion, spread)


def _bounds(usual: UsualValue, level: float) -> list[float]:
    return [max(mean, usual.mean * _LEAST_PART) * level for mean in usual.by_hour]


def look_above(rule: Rule, alert: Alert, bound: float, seen: Observations) -> Finding | None:
    """Whether the mean lies above `bound`; while it fires, whether it is back. None without values.

    ``value`` is that of the window that the alert names; of all the evidence, when that window is empty; of the values
    since it recovered, when it has.
    """
    usual = _settled(rule, alert, seen)
    if seen.firing is None:
        found = _weigh_mean(rule, alert, seen, above(bound, usual.dispersion), bound)
        return found if found is None else _of_this_release(rule, alert, seen, found, bound)
    resolve_at = bound if alert.resolve_at is None else alert.resolve_at
    spread = _spread(usual.mean, usual.variance, resolve_at) if usual.samples else 0.0
    return _weigh_mean(rule, alert, seen, back(resolve_at, usual.dispersion, spread), bound)


def look_rise(rule: Rule, alert: Alert, rise: Rise, seen: Observations) -> Finding | None:
    """Whether the mean has risen by ``rise.by`` or more; while it fires, whether it has fallen again.

    ``value`` is that of the time since the rise, or the fall, most likely began. None without values, or when there is
    no baseline yet.
    """
    firing = seen.firing
    usual = _usual(rule, alert, rise, seen)
    if usual is None:
        return None
    was = usual.mean if firing is None else firing.was or usual.mean
    bets = risen(usual, rise.by) if firing is None else fallen_back(usual, was, rise.by)
    found = _weigh_mean(rule, alert, seen, bets, was * (1 + rise.by))
    if found is None:
        return None
    if firing is None:
        found = _of_this_release(rule, alert, seen, found, (found.value + usual.mean) / 2)
    samples = round(usual.samples) if firing is None else firing.was_samples
    return replace(found, was=was, was_samples=samples)


def _usual(rule: Rule, alert: Alert, rise: Rise, seen: Observations) -> UsualValue | None:
    def make() -> UsualValue | None:
        return usual_value_of(without_high_quarters(values_of(rule, seen.before, seen.fine_from), rise.by))

    found = remembered(("rise", alert.of, rise.by, rule.sample), seen.before, make)
    if found is not None and found.samples >= alert.min_samples:
        return found
    if seen.firing is not None:
        # Of a rise that has lasted for as long as history is looked at, what was noted when it was found is left.
        was = seen.firing.was
        left = _settled(rule, alert, seen)
        return None if not was else replace(left, by_hour=(was,) * HOURS, mean=was, high=was)
    if seen.beside is not None:
        # A service without a history: a release is compared with those beside it.
        return usual_value_of(values_of(rule, seen.beside, seen.fine_from))
    return None


def _settled(rule: Rule, alert: Alert, seen: Observations) -> UsualValue:
    """What is usual by all that is older than a day, above the bound or not.

    What may be the rise itself says nothing about how much hours differ anyway.
    """
    settled = [*seen.before, *(item for item in seen.bins if item.minute < seen.fine_from - _DAY)]

    def make() -> UsualValue:
        nothing = UsualValue((0.0,) * HOURS, 0.0, 0.0, 0.0, 0.0, correlation(()))
        return usual_value_of(values_of(rule, settled, seen.fine_from)) or nothing

    return remembered(("settled", alert.of, rule.sample), settled, make)


def _of_this_release(rule: Rule, alert: Alert, seen: Observations, found: Finding, limit: float) -> Finding:
    """`found`, without evidence where the other releases lie above `limit` in the same time, or nobody knows."""
    if seen.beside is None or not found.evidence:
        return found
    since = found.since or 0
    others = measure_all(rule, alert, (item for item in seen.beside if item.minute >= since))
    is_known = others is not None and others.samples >= alert.min_samples
    return found if is_known and others is not None and others.value <= limit else replace(found, evidence=0.0)


def _spread(mean: float, variance: float, bound: float) -> float:
    """The mean of squares of ``1 - x / bound``."""
    return (variance + (bound - mean) ** 2) / bound**2


def _weigh_mean(rule: Rule, alert: Alert, seen: Observations, bets: Bets, bound: float) -> Finding | None:
    whole = total(item.tally for item in seen.bins)
    evidence = weigh(bets, values_of(rule, seen.bins, seen.fine_from), alert.false_alarm_every, seen.until)
    changed = seen.since(evidence.since)
    # What has recovered is told by the values since, not by a window that begins before.
    has_recovered = seen.firing is not None and evidence.value >= 1
    shown = changed if alert.rise is not None or has_recovered else seen.shown
    now = measure_all(rule, alert, shown) or measure(rule, alert, whole)
    if now is None:
        return None
    value = evidence.value if whole.passed >= alert.min_samples else None
    return now.finding(bound, value, changed[0].minute if changed else None)
