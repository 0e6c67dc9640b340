"""How long an alert that does not fire would still take, if results keep coming as they came last.

The detectors look at what is stored, and after it at as many results an hour as came in the last hour with results,
with the shares of the last ``over``. Hours without results are not counted: they are neither good nor bad.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracegrade.alert.check import Before, check, looks_back_s
from tracegrade.alert.detect.finding import measure
from tracegrade.alert.outlook import TimeToFire
from tracegrade.alert.read import window_of
from tracegrade.alert.stored_history import Counted, ReadHistory
from tracegrade.model.tally import Tally, total
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.store.history import SeriesKey, Window
from tracegrade.store.schema import MINUTE_NS

_NS = 1_000_000_000
_HOUR = 60
_DAY = 24 * _HOUR
_LOOKS = (15, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, _DAY, 2 * _DAY, 3 * _DAY, 5 * _DAY, 7 * _DAY)
"""After so many minutes it is looked whether it fires."""


def ahead(counted: Counted, rule: Rule, alert: Alert, until_ns: int, before: Before) -> TimeToFire | None:
    """What to expect of `alert` of `rule` from `until_ns` on; None for coverage, of which nothing is known.

    Args:
        counted: what is stored.
        rule: it may have other alerts.
        alert: one that does not fire.
        until_ns: up to when it is stored, ns since 1970 UTC.
        before: what fires, and fired.
    """
    if alert.coverage is not None:
        return None
    until = until_ns // MINUTE_NS
    since_ns = until_ns - int((looks_back_s([rule]) + 7200) * _NS)
    continued = _Continued(counted, rule.id, alert, until)
    history = ReadHistory(continued, [rule], since_ns, (until + _LOOKS[-1]) * MINUTE_NS)
    of_alert = continued.last(window_of(rule, alert, since_ns, until_ns))
    measured = measure(rule, alert, of_alert.over)
    share = None if measured is None else measured.value
    for minutes in _LOOKS if of_alert.hour else ():
        checked = check(history, [rule], before, (until + minutes) * MINUTE_NS)
        known = {fires.key for fires in before.firing}
        if any(_is_of(fires, alert) and fires.key not in known for fires in checked.open):
            return TimeToFire(minutes, of_alert.hour, share)
    return TimeToFire(None, of_alert.hour, share)


def _is_of(fires: Any, alert: Alert) -> bool:
    return (fires.kind, fires.of, fires.over_s) == (alert.kind, alert.of, alert.over)


@dataclass(frozen=True, slots=True)
class _Last:
    """The results of a rule's last hour with results, and their outcomes of the last ``over``; of all its series."""

    hour: int
    over: Tally


class _Continued:
    """What is stored, and after the minute `until` results as they came last."""

    def __init__(self, counted: Counted, rule_id: str, alert: Alert, until: int) -> None:
        self._counted, self._rule_id, self._until = counted, rule_id, until
        self._over = max(1, int(alert.over // 60))
        self._last: dict[tuple[str, bool], _Last] = {}

    @property
    def series(self) -> Mapping[int, tuple[SeriesKey, float]]:
        return self._counted.series

    def last(self, window: Window) -> _Last:
        return self._last.get((window.evaluation, window.count_incomplete), _Last(0, Tally()))

    def minutes(self, window: Window) -> Iterable[tuple[int, int, Sequence[Any]]]:
        rows: defaultdict[int, list[tuple[int, Sequence[float]]]] = defaultdict(list)
        for number, minute, counts in self._counted.minutes(window):
            if minute < self._until:
                rows[number].append((minute, counts))
        of_rule = {number: some for number, some in rows.items() if self.series[number][0].rule_id == self._rule_id}
        newest = max((some[-1][0] for some in of_rule.values()), default=0)
        hours, overs = 0, []
        for number, some in rows.items():
            hour = sum(sum(counts[:4]) for minute, counts in some if minute > newest - _HOUR)
            over = [
                sum(column)
                for column in zip(*(row for minute, row in some if minute > newest - self._over), strict=True)
            ]
            yield from ((number, minute, counts) for minute, counts in some)
            if number in of_rule and over:
                hours += round(hour)
                overs.append(Tally.of(*map(int, over[:4]), *over[4:], weight=self.series[number][1]))
                yield from ((number, *row) for row in self._to_come(hour, over))
        self._last[window.evaluation, window.count_incomplete] = _Last(hours, total(overs))

    def _to_come(self, hour: float, over: Sequence[float]) -> Iterable[tuple[int, Sequence[float]]]:
        """By minute, so many results an hour, in the proportions of the last ``over``."""
        results = sum(over[:4])
        if not results or not hour:
            return
        sent = [0.0] * 4
        for minute in range(_LOOKS[-1]):
            due = [hour * (minute + 1) / _HOUR * part / results for part in over[:4]]
            new = [float(int(there) - int(here)) for there, here in zip(due, sent, strict=True)]
            sent = due
            if any(new):
                judged, of_over = new[0] + new[1], over[0] + over[1]
                scores = [part * judged / of_over if of_over else 0.0 for part in over[4:]]
                yield self._until + minute, (*new, *scores)
