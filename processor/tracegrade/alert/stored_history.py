"""The outcomes that checks read, from the store: one query for all rules that share a window."""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection

from tracegrade.alert.read import window_of
from tracegrade.model.tally import Tally, total
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Bin, SeriesHistory, SeriesKey, Window, bins_of
from tracegrade.store.schema import BACKFILL, MINUTE_NS
from tracegrade.store.tallies import stretches

_COUNTED = 6  # numbers in each minute
_HOURS_KEPT = 200  # windows: one for each rule, and for each evaluation that it watches
_READ_AGAIN_NS = 600 * 1_000_000_000
_HOUR_NS = 60 * MINUTE_NS

_T = TypeVar("_T")
_ByRule: TypeAlias = Mapping[str, Mapping[SeriesKey, Iterable[Bin]]]


class SettledHours:
    """The outcomes of hours that ended before a check, by the hour or by the minute, kept between checks.

    They change only by results that come late, so they are read again after ten minutes; and in a new hour, when other
    ones are asked for.
    """

    def __init__(self) -> None:
        self._read: dict[Hashable, tuple[int, Any]] = {}

    def of(self, about: Hashable, now_ns: int, read: Callable[[], _T]) -> _T:
        """What `read` gives, or gave a few minutes ago; `about` says which rules and which window that is of."""
        hour = now_ns // _HOUR_NS
        self._read = {
            key: (read_ns, found)
            for key, (read_ns, found) in self._read.items()
            if 0 <= now_ns - read_ns < _READ_AGAIN_NS and read_ns // _HOUR_NS == hour
        }
        if about not in self._read:
            self._read[about] = now_ns, read()
        found: _T = self._read[about][1]
        return found


class StoredHistory:
    """The stored outcomes at one moment; each window is read once."""

    def __init__(
        self, connection: Connection, rules: Sequence[Rule], now_ns: int = 0, settled: SettledHours | None = None
    ) -> None:
        """Read on `connection` what checks of `rules` at `now_ns` ask for, and is not in `settled`."""
        self._connection = connection
        self._hashes = frozenset(rule.hash for rule in rules)
        self._now_ns = now_ns
        self._settled = settled or SettledHours()
        self._by_minute: Callable[[Window], _ByRule] = cache(lambda window: self._history.bins(window, by_minute=True))

    def backfilled(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Iterable[Bin]]:
        """See `tracegrade.alert.read.History.backfilled`."""
        about = self._hashes, window, "backfilled"
        return self._settled.of(about, self._now_ns, lambda: self._backfill(window)).get(rule_id, {})

    def _backfill(self, window: Window) -> _ByRule:
        return self._backfill_history.bins(window) if self._backfill_history.series else {}

    @cached_property
    def _backfill_history(self) -> SeriesHistory:
        return SeriesHistory(self._connection, self._hashes, run=BACKFILL)

    @cached_property
    def _history(self) -> SeriesHistory:
        return SeriesHistory(self._connection, self._hashes)

    def bins(self, rule_id: str, window: Window, by_minute: bool = False) -> Mapping[SeriesKey, Iterable[Bin]]:
        """See `tracegrade.alert.read.History.bins`."""
        if by_minute and window.until_ns > self._now_ns - _HOUR_NS:
            found = self._by_minute(window)
        else:
            about = self._hashes, window, by_minute
            found = self._settled.of(about, self._now_ns, lambda: self._history.bins(window, by_minute))
        return found.get(rule_id, {})

    def totals(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Tally]:
        """See `tracegrade.alert.read.History.totals`."""
        about = self._hashes, window, "totals"
        return self._settled.of(about, self._now_ns, lambda: self._history.totals(window)).get(rule_id, {})


class Counted(Protocol):
    """Outcomes that are counted by minute, such as those of a `SeriesHistory`."""

    @property
    def series(self) -> Mapping[int, tuple[SeriesKey, float]]:
        """Each series, and for how many results each of its results stands, by number."""

    def minutes(self, window: Window) -> Iterable[tuple[int, int, Sequence[Any]]]:
        """See `SeriesHistory.minutes`."""


class ReadHistory:
    """Outcomes by minute, read once, from which any window within them can be summed."""

    def __init__(self, history: Counted, rules: Sequence[Rule], since_ns: int, until_ns: int) -> None:
        """Read from `history` what checks of `rules` between the two times ask for."""
        # The checks of one hour read the same hours.
        self._by_hour = lru_cache(_HOURS_KEPT)(self._hours)
        self._courses: dict[tuple[str, bool], defaultdict[str, list[_Course]]] = {}
        windows = {window_of(rule, alert, since_ns, until_ns) for rule in rules for alert in rule.alert}
        for window in windows:
            courses: dict[int, _Course] = {}
            for number, minute, counted in history.minutes(window):
                if number not in courses:
                    courses[number] = _Course(*history.series[number])
                courses[number].add(minute, counted)
            by_rule: defaultdict[str, list[_Course]] = defaultdict(list)
            for course in courses.values():
                by_rule[course.key.rule_id].append(course)
            self._courses[window.evaluation, window.count_incomplete] = by_rule

    def bins(self, rule_id: str, window: Window, by_minute: bool = False) -> Mapping[SeriesKey, Sequence[Bin]]:
        """See `tracegrade.alert.read.History.bins`."""
        if by_minute:
            return self._found(rule_id, window, [(1, window.since_ns // MINUTE_NS, (window.until_ns - 1) // MINUTE_NS)])
        return self._by_hour(rule_id, window)

    def backfilled(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Sequence[Bin]]:
        """See `tracegrade.alert.read.History.backfilled`: none, since it was not there at the time that is read."""
        return {}

    def totals(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Tally]:
        """See `tracegrade.alert.read.History.totals`."""
        found: defaultdict[SeriesKey, list[Tally]] = defaultdict(list)
        for course in self._courses[window.evaluation, window.count_incomplete][rule_id]:
            first, end = window.since_ns // MINUTE_NS, (window.until_ns - 1) // MINUTE_NS + 1
            found[course.key].append(course.between(first, end))
        return {key: sums for key, some in found.items() if (sums := total(some)).results}

    def _hours(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Sequence[Bin]]:
        return self._found(rule_id, window, stretches(window.since_ns, window.until_ns))

    def _found(
        self, rule_id: str, window: Window, parts: Sequence[tuple[int, int, int]]
    ) -> Mapping[SeriesKey, Sequence[Bin]]:
        places: defaultdict[SeriesKey, defaultdict[tuple[int, int], list[Tally]]]
        places = defaultdict(lambda: defaultdict(list))
        for course in self._courses[window.evaluation, window.count_incomplete][rule_id]:
            for minutes, first, last in parts:
                for start in course.starts(minutes, first, last):
                    places[course.key][start, minutes].append(course.between(start, start + minutes))
        return {key: bins_of(found) for key, found in places.items()}


class _Course:
    """One series over time, as running sums by minute: the sum of any window is one subtraction."""

    def __init__(self, key: SeriesKey, weight: float) -> None:
        self.key = key
        self._weight = weight
        self._minutes = array("q")
        self._sums = [array("d", (0.0,)) for _ in range(_COUNTED)]

    def add(self, minute: int, counted: Iterable[float]) -> None:
        """Add the counts of a minute, later than those before."""
        self._minutes.append(minute)
        for sums, count in zip(self._sums, counted, strict=True):
            sums.append(sums[-1] + count)

    def between(self, first: int, end: int) -> Tally:
        """The sum from minute `first` up to, and without, minute `end`."""
        low, high = bisect_left(self._minutes, first), bisect_left(self._minutes, end)
        passed, failed, not_evaluable, errors, *scores = (sums[high] - sums[low] for sums in self._sums)
        return Tally.of(int(passed), int(failed), int(not_evaluable), int(errors), *scores, weight=self._weight)

    def starts(self, minutes: int, first: int, last: int) -> Iterator[int]:
        """The first minutes of all bins of this length, between two minutes, that hold results."""
        place = bisect_left(self._minutes, first)
        while place < len(self._minutes) and self._minutes[place] <= last:
            start = self._minutes[place] - self._minutes[place] % minutes
            yield start
            place = bisect_left(self._minutes, start + minutes)
