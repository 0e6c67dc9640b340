"""The values over time of what an alert watches, as the page of its incident draws them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from tracegrade.alert.diagnose.watched import Watched, watched
from tracegrade.model.tally import Tally, total
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.schema import MINUTE_NS, OUTCOMES
from tracegrade.store.tallies import ALL_SUMS, Period, tallies

_HOUR_NS = 60 * MINUTE_NS
_DAY_NS = 24 * _HOUR_NS

# How long before it began: the first with enough results, and at least twice as long as the incident lasts.
_BEFORE_NS = (_DAY_NS, 3 * _DAY_NS, 7 * _DAY_NS)
_ENOUGH_BEFORE = 240
_LONGER_THAN_INCIDENT = 2
# What is shown after it has ended, as a part of how long it lasted.
_AFTER = 0.25
_LEAST_AFTER_NS = 2 * _HOUR_NS

# The time near it: as long before as it lasts, shown where that is at most this part of the whole, and holds enough.
_NEAR = 0.5
_LEAST_NEAR_NS = _HOUR_NS // 2
_LEAST_NEAR = 4

_MOST_STEPS = 120
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080)
# Fewer results make one value together with those after them, but not of a time longer than this part of the whole.
_LEAST_RESULTS = 20
_LONGEST_VALUE = 1 / 16
# So many values show what is usual: all but one in ten of them lie within it, on either side half of those.
_LEAST_USUAL = 8
_UNUSUAL = 0.1

# Counted by their numbers: what is watched is whether results come at all.
_FAILS = (OUTCOMES.index("fail"),)
_COUNTED = ("coverage", "silent")


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the results from ``since_ns`` up to ``until_ns``, and of how many results it is."""

    since_ns: int
    until_ns: int
    value: float
    results: int

    @property
    def middle_ns(self) -> int:
        """The middle of its time."""
        return (self.since_ns + self.until_ns) // 2


@dataclass(frozen=True, slots=True)
class WatchedValues:
    """The values of what an alert watches from ``since_ns`` up to ``until_ns``, in order; none where no result came.

    ``began_ns``: when it began, as far as results tell. ``usual``: between which values at least 9 of 10 of those
    before it began lie; None of too few. With ``is_count``, the values are numbers of results in ``step_minutes``.
    """

    since_ns: int
    until_ns: int
    began_ns: int
    step_minutes: int
    values: list[Value]
    usual: tuple[float, float] | None
    is_count: bool = False


@dataclass(frozen=True, slots=True)
class _Steps:
    """Outcomes by the minute at which a step of so many ``minutes`` begins, from ``since_ns`` on."""

    found: Mapping[int, Tally]
    since_ns: int
    minutes: int

    def results_before(self, time_ns: int) -> int:
        """How many results the steps have that are over by a time."""
        over = time_ns // MINUTE_NS - self.minutes
        return sum(tally.results for minute, tally in self.found.items() if minute <= over)


def watched_values(connection: Connection, alert: StoredAlert, count_incomplete: bool, now_ns: int) -> WatchedValues:
    """What `alert` watches, over the time before it began, while it fired, and shortly after.

    Args:
        connection: on the store.
        alert: one that fires or fired.
        count_incomplete: its rule counts incomplete traces.
        now_ns: ns since 1970 UTC.
    """
    ended_ns = now_ns if alert.ends_ns is None else alert.ends_ns
    what = watched(connection, alert, count_incomplete, ended_ns)
    began_ns = what.began_ns
    length_ns = max(ended_ns - began_ns, 0)
    until_ns = now_ns
    if alert.ends_ns is not None:
        until_ns = min(now_ns, ended_ns + max(round(_AFTER * length_ns), _LEAST_AFTER_NS))
    is_count = alert.kind in _COUNTED
    shown, before = _Steps({}, 0, 1), -1
    for longer_ns in _BEFORE_NS:
        since_ns = began_ns - max(longer_ns, _LONGER_THAN_INCIDENT * length_ns)
        wider = _steps_of(connection, what, (since_ns, until_ns), count_incomplete or is_count)
        seen = wider.results_before(began_ns)
        if seen <= before:  # a longer time shows no more
            break
        shown, before = wider, seen
        if before >= _ENOUGH_BEFORE:
            break
    length_ns = until_ns - shown.since_ns
    values = list(_counted(shown) if is_count else _joined(what, shown, length_ns))
    return WatchedValues(shown.since_ns, until_ns, began_ns, shown.minutes, values, _usual(what, values), is_count)


def values_near(
    connection: Connection, alert: StoredAlert, count_incomplete: bool, wide: WatchedValues
) -> WatchedValues | None:
    """`wide`, which `watched_values` gave, of the time near the incident alone; None where it fills much of that time.

    What was usual is that of `wide`; of numbers of results in shorter steps, it is not known.
    """
    ended_ns = wide.until_ns if alert.ends_ns is None else alert.ends_ns
    length_ns = max(ended_ns - wide.began_ns, _LEAST_NEAR_NS)
    since_ns, until_ns = wide.began_ns - length_ns, min(wide.until_ns, ended_ns + length_ns)
    if until_ns - since_ns > _NEAR * (wide.until_ns - wide.since_ns):
        return None
    what = watched(connection, alert, count_incomplete, ended_ns)
    steps = _steps_of(connection, what, (since_ns, until_ns), count_incomplete or wide.is_count)
    # Longer values than those of the whole: of few results each, they would show chance.
    values = list(_counted(steps) if wide.is_count else _joined(what, steps, 2 * (until_ns - since_ns)))
    of_few = not wide.is_count and sum(value.results for value in values) < len(values) * _LEAST_RESULTS / 2
    if len(values) < _LEAST_NEAR or of_few:
        return None
    usual = None if wide.is_count else wide.usual
    return WatchedValues(steps.since_ns, until_ns, wide.began_ns, steps.minutes, values, usual, wide.is_count)


def _steps_of(connection: Connection, what: Watched, period: Period, count_incomplete: bool) -> _Steps:
    since_ns, until_ns = period
    minutes = _step_for((until_ns - since_ns) // MINUTE_NS + 1)
    since_ns -= since_ns % (minutes * MINUTE_NS)
    numbers = what.numbers(before=False)
    which: Literal["count", "skip"] = "count" if count_incomplete else "skip"
    found = tallies(
        connection, numbers, periods=[(since_ns, until_ns)], step_minutes=minutes, incomplete=which, summed=ALL_SUMS
    )
    return _Steps({step * minutes: tally for (step,), tally in sorted(found.items())}, since_ns, minutes)


def _step_for(minutes: int) -> int:
    return next((step for step in _STEPS if minutes <= step * _MOST_STEPS), _STEPS[-1])


def _counted(steps: _Steps) -> Iterator[Value]:
    for minute, tally in steps.found.items():
        number = tally.results
        yield Value(minute * MINUTE_NS, (minute + steps.minutes) * MINUTE_NS, float(number), number)


def _joined(what: Watched, steps: _Steps, length_ns: int) -> Iterator[Value]:
    """Values of enough results each; none is of times before and after it began."""
    step = steps.minutes
    longest = max(step, int(length_ns * _LONGEST_VALUE) // MINUTE_NS)
    began = what.began_ns // MINUTE_NS // step * step
    parts: list[Tally] = []
    first = last = 0
    for minute, tally in steps.found.items():
        if parts and (minute + step - first > longest or first < began <= minute):
            yield from _value(what, parts, first, last)
            parts = []
        first = first if parts else minute
        last = minute + step
        parts.append(tally)
        if sum(what.count(part).seen for part in parts) >= _LEAST_RESULTS:
            yield from _value(what, parts, first, last)
            parts = []
    yield from _value(what, parts, first, last)


def _value(what: Watched, parts: list[Tally], first: int, last: int) -> Iterator[Value]:
    part = what.count(total(parts))
    if (rate := part.rate) is not None:
        is_loss = not what.is_of_measure and what.bad == _FAILS
        yield Value(first * MINUTE_NS, last * MINUTE_NS, 1 - rate if is_loss else rate, part.seen)


def _usual(what: Watched, values: list[Value]) -> tuple[float, float] | None:
    # Of any time before it began that is no earlier incident; times of more than a week before are looked at as well.
    known_ns = what.before[0][0]
    before = sorted(
        value.value
        for value in values
        if value.until_ns <= what.began_ns and (what.is_before(value.since_ns) or value.since_ns < known_ns)
    )
    if len(before) < _LEAST_USUAL:
        return None
    out = int(len(before) * _UNUSUAL / 2)
    return before[out], before[-1 - out]
