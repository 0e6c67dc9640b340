"""Outcomes by the minute in which their traces started, for previews of what was imported or backdated."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any

import orjson
from sqlalchemy import Connection, select

from tracegrade.store.counts import CountChanges
from tracegrade.store.history import SeriesHistory, Window
from tracegrade.store.schema import LIVE, MINUTE_NS, traces
from tracegrade.store.series import stored_traffic

_ROWS_AT_ONCE = 1000


class StartedHistory:
    """The outcomes of the traces that are stored, by minute of their start; those of deleted traces are not in it."""

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
        rows = self._connection.execute(query.execution_options(yield_per=_ROWS_AT_ONCE))
        for tenant, service, is_session, traffic, start_ns, complete, evaluations, decisions in rows.all():
            if traffic is None and not is_session:
                traffic = traffic_of(tenant, service)
            minute = start_ns // MINUTE_NS
            counted.add(traffic, minute, complete, orjson.loads(evaluations), orjson.loads(decisions))
        return counted
