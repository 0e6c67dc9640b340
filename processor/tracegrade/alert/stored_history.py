"""The outcomes that checks read, from the store: one query for all rules that share a window."""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from sqlalchemy import Connection

from tracegrade.rule.rule import Rule
from tracegrade.store.history import Bin, Outcomes, SeriesHistory, SeriesKey, Window, bins_of, total, weighted
from tracegrade.store.rates import stretches
from tracegrade.store.schema import MINUTE_NS

_COUNTED = 6  # numbers in each minute


class StoredHistory:
    """The stored outcomes at one moment; each window is read once."""

    def __init__(self, connection: Connection, rules: Sequence[Rule]) -> None:
        history = SeriesHistory(connection, {rule.hash for rule in rules})
        self._sums = cache(history.sums)
        self._bins = cache(history.bins)

    def sums(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Outcomes]:
        """See `tracegrade.alert.check.History.sums`."""
        return self._sums(window).get(rule_id, {})

    def bins(self, rule_id: str, window: Window) -> Mapping[SeriesKey, list[Bin]]:
        """See `tracegrade.alert.check.History.bins`."""
        return self._bins(window).get(rule_id, {})


class ReadHistory:
    """Stored outcomes by minute, read once, from which any window within them can be summed."""

    def __init__(self, connection: Connection, rules: Sequence[Rule], since_ns: int, until_ns: int) -> None:
        history = SeriesHistory(connection, {rule.hash for rule in rules})
        self._courses: dict[tuple[str, bool], defaultdict[str, list[_Course]]] = {}
        looked_at = {(rule.incomplete == "count", alert.evaluation) for rule in rules for alert in rule.alert}
        for count_incomplete, evaluation in looked_at:
            courses: dict[int, _Course] = {}
            window = Window(evaluation, since_ns, until_ns, count_incomplete)
            for number, minute, counted in history.minutes(window):
                if number not in courses:
                    courses[number] = _Course(*history.series[number])
                courses[number].add(minute, counted)
            by_rule: defaultdict[str, list[_Course]] = defaultdict(list)
            for course in courses.values():
                by_rule[course.key.rule_id].append(course)
            self._courses[evaluation, count_incomplete] = by_rule

    def sums(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Outcomes]:
        """See `tracegrade.alert.check.History.sums`."""
        first, last = window.since_ns // MINUTE_NS, (window.until_ns - 1) // MINUTE_NS
        parts: defaultdict[SeriesKey, list[Outcomes]] = defaultdict(list)
        for course in self._courses[window.evaluation, window.count_incomplete][rule_id]:
            found = course.between(first, last + 1)
            if any(found):
                parts[course.key].append(found)
        return {key: total(found) for key, found in parts.items()}

    def bins(self, rule_id: str, window: Window) -> Mapping[SeriesKey, list[Bin]]:
        """See `tracegrade.alert.check.History.bins`."""
        parts: defaultdict[SeriesKey, defaultdict[tuple[int, int], list[Outcomes]]]
        parts = defaultdict(lambda: defaultdict(list))
        for course in self._courses[window.evaluation, window.count_incomplete][rule_id]:
            for minutes, first, last in stretches(window.since_ns, window.until_ns):
                for start in course.starts(minutes, first, last):
                    parts[course.key][start, minutes].append(course.between(start, start + minutes))
        return {key: bins_of(places) for key, places in parts.items()}


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

    def between(self, first: int, end: int) -> Outcomes:
        """The sum from minute `first` up to, and without, minute `end`."""
        low, high = bisect_left(self._minutes, first), bisect_left(self._minutes, end)
        passed, failed, not_evaluable, errors, *scores = (sums[high] - sums[low] for sums in self._sums)
        return weighted((int(passed), int(failed), int(not_evaluable), int(errors), *scores), self._weight)

    def starts(self, minutes: int, first: int, last: int) -> Iterator[int]:
        """The first minutes of all bins of this length, between two minutes, that hold results."""
        place = bisect_left(self._minutes, first)
        while place < len(self._minutes) and self._minutes[place] <= last:
            start = self._minutes[place] - self._minutes[place] % minutes
            yield start
            place = bisect_left(self._minutes, start + minutes)
