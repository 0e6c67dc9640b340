"""How soon an alert is expected to fire, and how often it may be wrong, at the volume of its rule.

The detectors look at results that are all mean.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import ceil, sqrt
from statistics import NormalDist, median_low

from tracegrade.alert.detect.bets import Bets
from tracegrade.alert.detect.bound import past_bound
from tracegrade.alert.detect.bounds import chernoff_lower
from tracegrade.alert.detect.burn import fires_after_s
from tracegrade.alert.detect.drop import fall
from tracegrade.alert.detect.evidence import HOURS, Change, Step, look_for, weigh
from tracegrade.alert.detect.mean import UsualValue, above, risen, usual_value_of
from tracegrade.alert.detect.moments import PRIOR_DISPERSION, Moments
from tracegrade.alert.detect.steps import steps_of, values_of
from tracegrade.alert.detect.usual import BASELINE_ERROR, Usual, known_as, usual_of
from tracegrade.alert.outlook import Expectation, Volume
from tracegrade.rule.alert import Alert
from tracegrade.rule.alert_forms import Slo
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Bin, SeriesKey

_HOUR = 60
_FINE = 5
_DAY = 24 * 60
_MONTH_S = 30 * 86_400
_USUAL_SHARE = 0.95  # of what no store knows
_BELOW_THE_BOUND = (0.05, 0.1)
_ABOVE_THE_BOUND = (0.2, 0.5)
_BEFORE = 36 * 60  # minutes
_FAR = NormalDist().inv_cdf(1 - BASELINE_ERROR)


def stated_volume(a_day: float, alert: Alert) -> Volume:
    """So many results a day, at the share that the rule states, or 95 %, after a week of history.

    Values are taken to differ by as much as their mean.
    """
    if alert.is_of_values:
        samples = 7 * a_day
        error = sqrt((1 + max(0.0, a_day / 24 - 1) * PRIOR_DISPERSION) / samples)
        return Volume(a_day, UsualValue((1.0,) * HOURS, 1.0, 1 + error * _FAR, 1.0, samples, PRIOR_DISPERSION))
    share = _USUAL_SHARE
    if alert.drop is not None and alert.drop.against.share is not None:
        share = alert.drop.against.share
    samples = 7 * a_day
    independent = samples / (1 + max(0.0, a_day / 24 - 1) * PRIOR_DISPERSION)
    low = chernoff_lower(share, independent, BASELINE_ERROR)
    known_by = known_as(share, independent)
    return Volume(a_day, Usual((share,) * HOURS, share, low, samples, PRIOR_DISPERSION, known_by))


def stored_volume(rule: Rule, alert: Alert, bins: Mapping[SeriesKey, Sequence[Bin]], now: int) -> Volume | None:
    """That of the middle one of the series, by their results a day; None where there is none.

    Each is counted from its first result up to the minute `now`, at least one hour: of the time before there were
    results nothing is known.
    """
    known: list[tuple[float, Usual | UsualValue]] = []
    for found in bins.values():
        until = found[-1].minute + _DAY
        usual = (
            usual_value_of(values_of(rule, found, until))
            if alert.is_of_values
            else usual_of(steps_of(alert, found, until))
        )
        if usual is not None:
            known.append((usual.samples * _DAY / max(_HOUR, now - found[0].minute), usual))
    if not known:
        return None
    middle = median_low(sorted(a_day for a_day, _ in known))
    return Volume(middle, next(usual for a_day, usual in known if a_day == middle))


def expected(alert: Alert, volume: Volume | None) -> Expectation | None:
    """What to expect of `alert` at this volume; None for lost coverage, of which no size is known."""
    if alert.coverage is not None:
        return None
    if alert.slo is not None:
        shares = (share for share in (1.0, 2 * (1 - alert.slo.objective)) if share <= 1)
        return Expectation(alert, volume, tuple((share, _minutes_of(alert.slo, share)) for share in shares), None)
    sizes = () if volume is None else _sizes(alert)
    found = tuple((size, minutes_until_found(alert, volume, size)) for size in sizes if volume is not None)
    return Expectation(alert, volume, found, _MONTH_S / alert.false_alarm_every)


def minutes_until_found(alert: Alert, volume: Volume, size: float) -> int | None:
    """Until a fall by `size` (of a bound: below it) fires, where all results come as the mean; None for never.

    At most the time in which results are evidence is looked at.
    """
    last = int(alert.evidence_s) // 60
    looks = (range(_FINE, 4 * _HOUR, _FINE), range(4 * _HOUR, 2 * _DAY, _HOUR), range(2 * _DAY, last, 6 * _HOUR))
    for minutes in chain(*looks):
        if volume.a_day * minutes / _DAY < 1 or volume.a_day * (_BEFORE + minutes) / _DAY < alert.min_samples:
            continue
        if _evidence(alert, volume, size, minutes) >= 1:
            return minutes
    return None


def _evidence(alert: Alert, volume: Volume, size: float, minutes: int) -> float:
    """The evidence so many minutes after the change."""
    usual, until = volume.usual, _BEFORE + minutes
    if isinstance(usual, UsualValue):
        return weigh(*_values(alert, usual, volume.a_day, size, minutes), alert.false_alarm_every, until).value
    change, after = _change(alert, usual, size)
    before = usual.share if alert.drop is not None else min(0.99, after + 2 * size)
    steps = [
        Step(minute, length, results * share, results * (1 - share))
        for minute, length, results, share in _results(volume.a_day, minutes, before, after)
    ]
    return look_for(change, reversed(steps), usual.dispersion, alert.false_alarm_every, until).value


def _values(alert: Alert, usual: UsualValue, a_day: float, size: float, minutes: int) -> tuple[Bets, Iterable[Moments]]:
    """The bets, and the values before and after a rise, the latest first; they differ by as much as is usual."""
    base = usual.mean if alert.rise is not None else alert.above or 0.0
    bets = risen(usual, alert.rise.by) if alert.rise is not None else above(base, usual.dispersion)
    squares = 1 + usual.variance / usual.mean**2
    before = base if alert.rise is not None else base * (1 - size)
    parts = [
        Moments(minute, length, results, results * mean, results * squares * mean**2)
        for minute, length, results, mean in _results(a_day, minutes, before, base * (1 + size))
    ]
    return bets, reversed(parts)


def _minutes_of(slo: Slo, fails: float) -> int | None:
    wait_s = fires_after_s(slo, fails)
    return None if wait_s is None else ceil(wait_s / 60)


def _sizes(alert: Alert) -> tuple[float, ...]:
    if (form := alert.drop or alert.rise) is not None:
        return form.by, 2 * form.by
    return _ABOVE_THE_BOUND if alert.is_of_values else _BELOW_THE_BOUND


def _change(alert: Alert, usual: Usual, size: float) -> tuple[Change, float]:
    """What is looked for, and the share of good results after a fall of that size."""
    if alert.drop is not None:
        return fall(usual, alert.drop.by), max(0.0, usual.share - size)
    bound = 1 - alert.above if alert.above is not None else alert.below or 0.0
    return past_bound(bound), max(0.0, bound - size)


def _results(a_day: float, minutes: int, before: float, after: float) -> Iterator[tuple[int, int, float, float]]:
    """A day and a half before a change at a full hour, and the minutes after it.

    Of each part its first minute, its length, how many results come, and their share or mean.
    """
    for minute in range(0, _BEFORE, _HOUR):
        yield minute, _HOUR, a_day * _HOUR / _DAY, before
    whole = max(0, minutes // _HOUR - 1) * _HOUR
    for minute in range(_BEFORE, _BEFORE + whole, _HOUR):
        yield minute, _HOUR, a_day * _HOUR / _DAY, after
    for minute in range(_BEFORE + whole, _BEFORE + minutes, _FINE):
        yield minute, _FINE, a_day * _FINE / _DAY, after
