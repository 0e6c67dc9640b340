"""What looks read: the outcomes of agents, which are made into bins when they are asked for.

Most looks find that nothing has come since the one before. Then nothing is made.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Protocol, TypeAlias

from tracegrade.alert.releases import together
from tracegrade.model.tally import Tally
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Bin, SeriesKey, Window
from tracegrade.store.schema import MINUTE_NS

_HOUR = 60
# Results are seen by the minute for this long, so that a change is found within its hour; then by the hour.
_FINE_HOURS = 1

Parts: TypeAlias = list[Iterable[Bin]]
"""What was read of one series, by window; `()` for a window in which nothing came."""


class History(Protocol):
    """Where outcomes come from."""

    def bins(self, rule_id: str, window: Window, by_minute: bool = False) -> Mapping[SeriesKey, Iterable[Bin]]:
        """The outcomes of every series of a rule, as it is in force, within `window`; by the hour, or by the minute.

        For `EVERY_TRACE` in place of a rule's id: how many traces each service sent. They are equal when what is stored
        is.
        """
        ...

    def backfilled(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Iterable[Bin]]:
        """What ``rules backtest --store`` judged afterwards by the rule as it is in force, by the hour.

        It tells what is usual, and nothing about what happens now.
        """
        ...

    def totals(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Tally]:
        """The sums of what `bins` gives."""
        ...


class Agent(Mapping[SeriesKey, Sequence[Bin]]):
    """The outcomes of each release of one agent of one service, in order of time; none is empty.

    ``parts`` is what was read of each release: where it is the same, so are the outcomes.
    """

    def __init__(self) -> None:
        """Without releases; they are added to ``parts``."""
        self.parts: dict[SeriesKey, Parts] = {}
        self._bins: dict[SeriesKey, Sequence[Bin]] = {}
        self._together: Sequence[Bin] | None = None

    def __getitem__(self, release: SeriesKey) -> Sequence[Bin]:
        """The outcomes of one release."""
        if release not in self._bins:
            self._bins[release] = [item for part in self.parts[release] for item in part]
        return self._bins[release]

    def __contains__(self, release: object) -> bool:
        """Whether it has such a release."""
        return release in self.parts

    def __iter__(self) -> Iterator[SeriesKey]:
        """Its releases."""
        return iter(self.parts)

    def __len__(self) -> int:
        """How many releases it has."""
        return len(self.parts)

    @property
    def together(self) -> Sequence[Bin]:
        """The outcomes of all releases as one."""
        if self._together is None:
            self._together = together(self.values())
        return self._together

    @property
    def active(self) -> list[SeriesKey]:
        """The releases with results since the last whole hour began."""
        return [release for release, parts in self.parts.items() if parts[-1] != ()]

    def forget(self) -> None:
        """Give the memory of the bins back; they are made again when they are asked for again."""
        self._bins.clear()
        self._together = None


class Reading:
    """What the alerts of one rule read at one time, each of it once."""

    def __init__(self, history: History, rule: Rule, now_ns: int) -> None:
        """Read from `history` what `rule` looks at, up to `now_ns` (since 1970 UTC)."""
        self.rule, self.now_ns = rule, now_ns
        self._history = history
        self._until = now_ns // MINUTE_NS
        self._hour = self._until // _HOUR
        self._read: dict[Hashable, Mapping[SeriesKey, Agent]] = {}

    @property
    def fine_from(self) -> int:
        """The minute from which on bins are minutes."""
        return (self._hour - _FINE_HOURS) * _HOUR

    def agents(self, alert: Alert, rule_id: str) -> Mapping[SeriesKey, Agent]:
        """What `alert` reads of the results of its rule, or of `EVERY_TRACE`, by the series of all releases."""
        windows = self._windows(alert)
        about = rule_id, windows
        if about not in self._read:
            found: dict[SeriesKey, Agent] = {}
            for number, (window, by_minute) in enumerate(windows):
                for key, bins in self._history.bins(rule_id, window, by_minute).items():
                    agent = found.setdefault(all_releases(key), Agent())
                    release = key._replace(release=key.release or "")
                    agent.parts.setdefault(release, [()] * len(windows))[number] = bins
            self._read[about] = found
        return self._read[about]

    def backfilled(self, alert: Alert) -> Mapping[SeriesKey, Agent]:
        """What was judged afterwards of the time in which `alert` looks for what is usual, as `agents` gives it."""
        window = self._window(alert, self._first(alert), self.fine_from)
        about = "backfilled", window
        if about not in self._read:
            found: dict[SeriesKey, Agent] = {}
            for key, bins in self._history.backfilled(self.rule.id, window).items():
                agent = found.setdefault(all_releases(key), Agent())
                agent.parts[key._replace(release=key.release or "")] = [bins]
            self._read[about] = found
        return self._read[about]

    def totals(self, alert: Alert, since: int) -> Mapping[SeriesKey, Tally]:
        """The sums of all that `alert` looks at from the minute `since` on, up to `fine_from`."""
        return self._history.totals(self.rule.id, self._window(alert, since, self.fine_from))

    def _windows(self, alert: Alert) -> tuple[tuple[Window, bool], ...]:
        """Evidence and history together: by the hour, and by the minute (True) where they are new."""
        first = self._first(alert)
        # Silence is told to the minute: so is the hour in which it would have begun.
        begins = self._until - ceil((alert.silent_s or 0) / 60)
        silent = min(self.fine_from, begins // _HOUR * _HOUR)
        windows = [
            (self._window(alert, since, until), by_minute)
            for since, until, by_minute in (
                (first, silent, False),
                (silent, min(silent + _HOUR, self.fine_from), True),
                (silent + _HOUR, self.fine_from, False),
            )
            if since < until
        ]
        # With the minute that has just begun.
        newest = window_of(self.rule, alert, self.fine_from * MINUTE_NS, self.now_ns)
        return (*windows, (newest, True))

    def _first(self, alert: Alert) -> int:
        return (self._hour - ceil(alert.history_s / 3600)) * _HOUR

    def _window(self, alert: Alert, since: int, until: int) -> Window:
        return window_of(self.rule, alert, since * MINUTE_NS, until * MINUTE_NS)


def all_releases(key: SeriesKey) -> SeriesKey:
    """The series of all releases together that `key` belongs to."""
    return key._replace(release=None)


def window_of(rule: Rule, alert: Alert, since_ns: int, until_ns: int) -> Window:
    """The results from `since_ns` up to `until_ns`, ns since 1970 UTC, that `alert` of `rule` looks at.

    Whoever sends incomplete traces alone is not silent.
    """
    count_incomplete = rule.incomplete == "count" or alert.silent_s is not None
    return Window(alert.evaluation, since_ns, until_ns, count_incomplete)
