"""Sums of outcomes by series, written in the transaction that writes the results.

Of what is judged live by minute, hour and day, of every other run as a whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import orjson
from sqlalchemy import Connection, select

from tracegrade.store import schema
from tracegrade.store.database import in_parts
from tracegrade.store.registry import database
from tracegrade.store.rows import DecisionRow, EvaluationRow
from tracegrade.store.schema import (
    COUNTED_MINUTES,
    LIVE,
    MINUTE_NS,
    OUTCOMES,
    WHOLE_RUN,
    traces,
)
from tracegrade.store.series import stored_traffic

_Place = tuple[int, int, bool]  # minute, series, complete
_PASS = OUTCOMES.index("pass")
_NOT_EVALUABLE = OUTCOMES.index("not_evaluable")
_ADDED = ", ".join(
    f"{column.name} = counts.{column.name} + excluded.{column.name}"
    for column in schema.counts.columns
    if not column.primary_key
)


class CountChanges:
    """The changes of one batch of writes to ``counts``."""

    def __init__(self) -> None:
        # By minute (None for a whole run) and completeness, then by series.
        self._sums: defaultdict[tuple[int | None, bool], defaultdict[int, list[float]]]
        self._sums = defaultdict(lambda: defaultdict(_no_sums))

    def add(
        self,
        traffic: int | None,
        minute: int | None,
        complete: bool,
        evaluations: Sequence[EvaluationRow],
        decisions: Sequence[DecisionRow],
        by: int = 1,
    ) -> None:
        """Count the outcomes of one trace, and the trace in series `traffic`; with `by` = -1, subtract them.

        `minute` is its `counted_minute`.

        A session is not counted as traffic, since its traces are: its `traffic` is None. What was measured counts in a
        series of its own: as a pass with the value as its score, or as not_evaluable where it is not known.
        """
        sums = self._sums[minute, bool(complete)]
        if traffic is not None:
            sums[traffic][_PASS] += by
        for _, series, _, _, _, outcome, score, *_ in evaluations:
            of_series = sums[series]
            of_series[outcome] += by
            if score is not None:
                of_series[-2] += by * score
                of_series[-1] += by * score * score
        for series, _, _, _, outcome, *measured in decisions:
            if outcome is not None:
                sums[series][outcome] += by
            for of, value in measured[0] if measured else ():
                of_series = sums[of]
                of_series[_PASS if value is not None else _NOT_EVALUABLE] += by
                if value is not None:
                    of_series[-2] += by * value
                    of_series[-1] += by * value * value

    def take_back(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Subtract the counts of the traces with these `numbers`, which will be replaced."""
        place = (traces.c.tenant, traces.c.run, traces.c.service, traces.c.members.is_not(None), traces.c.traffic)
        columns = (traces.c.last_received_ns, traces.c.complete, traces.c.evaluations, traces.c.decisions)
        for some in in_parts(numbers):
            query = select(*place, *columns).where(traces.c.number.in_(some))
            for tenant, run, service, is_session, traffic, last_received_ns, *results in connection.execute(query):
                if traffic is None and not is_session:
                    traffic = stored_traffic(connection, tenant, run, service)
                complete, evaluations, decisions = results
                minute = counted_minute(run, last_received_ns)
                self.add(traffic, minute, complete, orjson.loads(evaluations), orjson.loads(decisions), by=-1)

    def by_minute(self) -> Iterable[tuple[tuple[int | None, bool], Mapping[int, Sequence[float]]]]:
        """The sums so far: by minute and completeness, then by series."""
        return self._sums.items()

    def write(self, connection: Connection) -> None:
        """Add the sums to those stored."""
        sums: dict[_Place, list[float]] = {}
        rows = []
        for (minute, complete), by_series in self._sums.items():
            for series, of_series in by_series.items():
                if minute is None:
                    rows.append((WHOLE_RUN, 0, series, complete, *of_series))
                else:
                    sums[minute, series, complete] = of_series
        for minutes in COUNTED_MINUTES:
            sums = _by(minutes, sums)
            rows += [(minutes, *place, *added) for place, added in sums.items()]
        database(connection).insert_or_change(connection, schema.counts, sorted(rows), _ADDED)


def counted_minute(run: str, last_received_ns: int) -> int | None:
    """The minute in which a trace counts; None in a run that is counted as a whole."""
    return last_received_ns // MINUTE_NS if run == LIVE else None


def _by(minutes: int, shorter: Mapping[_Place, list[float]]) -> dict[_Place, list[float]]:
    """The sums of short periods added up to periods of this many minutes."""
    found: dict[_Place, list[float]] = {}
    for (minute, series, complete), sums in shorter.items():
        place = (minute - minute % minutes, series, complete)
        so_far = found.get(place)
        found[place] = sums if so_far is None else [a + b for a, b in zip(so_far, sums, strict=True)]
    return found


def _no_sums() -> list[float]:
    return [0] * len(OUTCOMES) + [0.0, 0.0]
