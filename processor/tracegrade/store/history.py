"""The numbers that alerts look at: the outcomes of each series, by minute and by hour.

A revision subtracts the counts of the one before it, in the transaction that stores it. So everything computed from
these sums is corrected too, and nothing counts twice.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from struct import Struct
from typing import Any, Literal, NamedTuple

import orjson
from sqlalchemy import Connection, Select, func, select

from tracegrade.model.tally import Tally, total
from tracegrade.store.schema import DAY_MINUTES, EVERY_TRACE, LIVE, MINUTE_NS, counts, series, traces
from tracegrade.store.series import stored_traffic
from tracegrade.store.tallies import ALL_SUMS, CountChanges, Sums, stretches, sums

# A minute and the counts in it, as in ``ALL_SUMS``; the columns are no wider.
_ROW = Struct("=iiiiidd")
_ROWS_AT_ONCE = 5000
_TRACES_AT_ONCE = 1000


class SeriesKey(NamedTuple):
    """A series of outcomes: one content of a rule, at one agent of one release of a service.

    ``evaluation`` is "" for the rule as a whole; ``rule_id`` is "" where traces are counted instead of results.
    """

    tenant: str
    rule_id: str
    rule_hash: str
    evaluation: str
    service: str
    agent: str
    release: str | None


class Bin(NamedTuple):
    """The outcomes of traces whose last span came within ``minutes`` from ``minute`` (since 1970) on."""

    minute: int
    minutes: int
    tally: Tally


class Window(NamedTuple):
    """A window of results: ``evaluation`` is "" for rules as a whole; it holds the minutes of both times (but not
    ``until_ns`` itself), ns since 1970 UTC; ``count_incomplete`` says whether incomplete traces count.
    """

    evaluation: str
    since_ns: int
    until_ns: int
    count_incomplete: bool


@dataclass(frozen=True, slots=True)
class PackedBins:
    """The bins of one series, in order of time; equal to others of which the same is stored.

    They take 36 bytes for each stored row, a tenth of what bins take, which are made when they are iterated over.
    ``parts``: the minutes of a bin, the weight of a result, and rows in order of time.
    """

    parts: tuple[tuple[int, float, bytes], ...]

    def __iter__(self) -> Iterator[Bin]:
        """The bins, each with results."""
        made = [
            Bin(minute, minutes, Tally.of(*found, weight=weight))
            for minutes, weight, rows in self.parts
            for minute, *found in _ROW.iter_unpack(rows)
        ]
        if all(one.minute < later.minute for one, later in pairwise(made)):
            return iter(made)
        places: defaultdict[tuple[int, int], list[Tally]] = defaultdict(list)
        for item in made:
            places[item.minute, item.minutes].append(item.tally)
        return iter(bins_of(places))


class SeriesHistory:
    """The outcomes of chosen series, by rule id, as they are stored at one moment.

    ``EVERY_TRACE`` in place of a rule id: the number of traces that each service sent, judged or not.
    """

    def __init__(self, connection: Connection, rule_hashes: Collection[str], run: str = LIVE) -> None:
        """Look up the series of the rules that have these hashes now; `run` is the live one, or `BACKFILL`."""
        self._connection = connection
        chosen = select(series).where(series.c.run == run, series.c.rule_hash.in_({*rule_hashes, EVERY_TRACE}))
        self._numbers = chosen.with_only_columns(series.c.number)
        self.series = {
            row.number: (
                SeriesKey(row.tenant, row.rule_id, row.rule_hash, row.evaluation, row.service, row.agent, row.release),
                1.0 / row.probability,
            )
            for row in connection.execute(chosen)
        }

    def bins(self, window: Window, by_minute: bool = False) -> dict[str, dict[SeriesKey, PackedBins]]:
        """The outcomes of each series within `window`, by whole hours, and by minutes at both ends; none is empty.

        A day has 24 to 83 rows a series, each read in some microseconds; with `by_minute` it has up to 1440.
        """
        # In the order of the primary key, so that what has not changed reads the same.
        columns = (counts.c.series, counts.c.minute, *(counts.c[name] for name in ALL_SUMS))
        query = select(*columns).order_by(counts.c.minute, counts.c.series, counts.c.complete)
        query = query.execution_options(yield_per=_ROWS_AT_ONCE)
        minute_by_minute = [(1, window.since_ns // MINUTE_NS, (window.until_ns - 1) // MINUTE_NS)]
        whole_hours = stretches(window.since_ns, window.until_ns)
        parts: defaultdict[SeriesKey, list[tuple[int, float, bytes]]] = defaultdict(list)
        for minutes, stretch in self._stretches(query, window, minute_by_minute if by_minute else whole_hours):
            rows: defaultdict[int, bytearray] = defaultdict(bytearray)
            for number, *row in self._connection.execute(stretch):
                if any(row[1:5]):
                    rows[number] += _ROW.pack(*row)
            for number, packed in rows.items():
                key, weight = self.series[number]
                parts[key].append((minutes, weight, bytes(packed)))
        return _by_rule({key: PackedBins(tuple(found)) for key, found in parts.items()})

    def totals(self, window: Window) -> dict[str, dict[SeriesKey, Tally]]:
        """The outcomes of each series within `window` together, by rule; of a month 30 to 200 rows a series."""
        parts: defaultdict[SeriesKey, list[Tally]] = defaultdict(list)
        for number, _, _, values in self._sums(window, stretches(window.since_ns, window.until_ns, DAY_MINUTES)):
            key, weight = self.series[number]
            if any(values[:4]):
                parts[key].append(Tally.of(*values, weight=weight))
        return _by_rule({key: total(found) for key, found in parts.items()})

    def steps(self, window: Window, step_minutes: int) -> dict[SeriesKey, dict[int, Tally]]:
        """The outcomes of each series within `window` by step, which is numbered from 1970 on; of all rules chosen.

        A step is some hours long, and so is the window but for its end.
        """
        parts: defaultdict[SeriesKey, defaultdict[int, list[Tally]]] = defaultdict(lambda: defaultdict(list))
        for number, step, _, values in self._sums(window, stretches(window.since_ns, window.until_ns), step_minutes):
            key, weight = self.series[number]
            parts[key][step].append(Tally.of(*values, weight=weight))
        return {key: {number: total(some) for number, some in by_step.items()} for key, by_step in parts.items()}

    def minutes(self, window: Window) -> Iterator[tuple[int, int, Sequence[Any]]]:
        """The number of a series, a minute, and the counts there; by series, then in order of time."""
        columns = (counts.c.series, counts.c.minute, *(func.sum(counts.c[name]) for name in ALL_SUMS))
        query = select(*columns).where(counts.c.minutes == 1)
        query = query.where(counts.c.minute.between(window.since_ns // MINUTE_NS, window.until_ns // MINUTE_NS))
        query = self._of_these(query, window).group_by(counts.c.series, counts.c.minute)
        for number, minute, *found in self._connection.execute(query.order_by(counts.c.series, counts.c.minute)):
            yield number, minute, found

    def _stretches(
        self, query: Select[Any], window: Window, parts: Sequence[tuple[int, int, int]]
    ) -> Iterator[tuple[int, Select[Any]]]:
        query = self._of_these(query, window)
        for minutes, first, last in parts:
            yield minutes, query.where(counts.c.minutes == minutes, counts.c.minute.between(first, last))

    def _sums(
        self, window: Window, parts: Sequence[tuple[int, int, int]], step_minutes: int | None = None
    ) -> Iterator[Sums]:
        which: Literal["all", "complete"] = "all" if window.count_incomplete else "complete"
        return sums(self._connection, self._of(window), parts, step_minutes=step_minutes, traces=which)

    def _of(self, window: Window) -> Select[Any]:
        return self._numbers.where(series.c.evaluation == window.evaluation)

    def _of_these(self, query: Select[Any], window: Window) -> Select[Any]:
        query = query.where(counts.c.series.in_(self._of(window)))
        return query if window.count_incomplete else query.where(counts.c.complete)


class StartedHistory:
    """The outcomes by the minute in which their traces started, for previews of what was imported or backdated.

    Of the traces that are stored: those of deleted ones are not in it.
    """

    def __init__(self, connection: Connection, rule_hashes: Collection[str]) -> None:
        """Look up the series of the rules that have these hashes now."""
        self._connection = connection
        self.series = SeriesHistory(connection, rule_hashes).series

    def minutes(self, window: Window) -> Iterator[tuple[int, int, Sequence[Any]]]:
        """As `SeriesHistory.minutes`; it reads each trace that started within `window`."""
        sums: defaultdict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0] * 6)
        counted = self._counted(window)
        for (minute, complete), by_series in counted.by_minute():
            for number, found in by_series.items():
                is_wanted = number in self.series and self.series[number][0].evaluation == window.evaluation
                if is_wanted and (complete or window.count_incomplete):
                    place = sums[number, minute or 0]
                    place[:] = [one + more for one, more in zip(place, found, strict=True)]
        for (number, minute), found in sorted(sums.items()):
            yield number, minute, found

    def _counted(self, window: Window) -> CountChanges:
        counted = CountChanges()
        traffic_of = cache(lambda tenant, service: stored_traffic(self._connection, tenant, LIVE, service))
        place = (traces.c.tenant, traces.c.service, traces.c.members.is_not(None), traces.c.traffic, traces.c.start_ns)
        query = select(*place, traces.c.complete, traces.c.evaluations, traces.c.decisions).where(
            traces.c.run == LIVE, traces.c.start_ns.between(max(1, window.since_ns), window.until_ns)
        )
        rows = self._connection.execute(query.execution_options(yield_per=_TRACES_AT_ONCE))
        for tenant, service, is_session, traffic, start_ns, complete, evaluations, decisions in rows.all():
            if traffic is None and not is_session:
                traffic = traffic_of(tenant, service)
            minute = start_ns // MINUTE_NS
            counted.add(traffic, minute, complete, orjson.loads(evaluations), orjson.loads(decisions))
        return counted


def bins_of(places: Mapping[tuple[int, int], Sequence[Tally]]) -> list[Bin]:
    """One bin for each (minute, minutes), in order of time."""
    return [Bin(*place, found[0] if len(found) == 1 else total(found)) for place, found in sorted(places.items())]


def _by_rule(by_key: Mapping[SeriesKey, Any]) -> dict[str, dict[SeriesKey, Any]]:
    found: defaultdict[str, dict[SeriesKey, Any]] = defaultdict(dict)
    for key, value in by_key.items():
        found[key.rule_id][key] = value
    return found
