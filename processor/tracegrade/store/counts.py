"""Outcomes added up by series, by the minute and by the hour, in the transaction that writes them."""

from collections.abc import Sequence

from sqlalchemy import Connection, select
from sqlalchemy.engine import Dialect

from tracegrade.store import schema
from tracegrade.store.schema import COUNTED_MINUTES, MINUTE_NS, OUTCOMES, decisions, evaluations, traces

_Place = tuple[int, int, bool]  # series, minute, complete


class Sums:
    """What a batch changes in ``counts``."""

    def __init__(self) -> None:
        self._sums: dict[_Place, list[float]] = {}

    def add(self, series: int, minute: int, complete: bool, outcome: int, score: float | None, by: int = 1) -> None:
        """Count one outcome (a place in OUTCOMES), or take it back with `by` = -1."""
        place = (series, minute, complete)
        sums = self._sums.get(place)
        if sums is None:
            sums = self._sums[place] = [0] * len(OUTCOMES) + [0.0]
        sums[outcome] += by
        if score is not None:
            sums[-1] += by * score

    def take_back(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Take back what the traces of `numbers` counted; they are about to be replaced."""
        for table in (evaluations, decisions):
            score = table.c.score if table is evaluations else None
            query = (
                select(
                    table.c.series,
                    traces.c.last_received_ns,
                    traces.c.complete,
                    table.c.outcome,
                    *([score] if score is not None else []),
                )
                .join(traces, traces.c.number == table.c.trace)
                .where(table.c.trace.in_(numbers), table.c.outcome.is_not(None))
            )
            for row in connection.execute(query):
                self.add(row[0], row[1] // MINUTE_NS, row[2], row[3], row[4] if score is not None else None, by=-1)

    def write(self, connection: Connection) -> None:
        """Add the sums to what is stored."""
        for minutes in COUNTED_MINUTES:
            rows = [
                (series, minutes, start, complete, *sums)
                for (series, start, complete), sums in self._by(minutes).items()
            ]
            if rows:
                connection.exec_driver_sql(_upsert(connection.dialect), rows)

    def _by(self, minutes: int) -> dict[_Place, list[float]]:
        """The sums by stretches of so many minutes."""
        found: dict[_Place, list[float]] = {}
        for (series, minute, complete), sums in self._sums.items():
            place = (series, minute - minute % minutes, complete)
            so_far = found.get(place)
            found[place] = sums if so_far is None else [a + b for a, b in zip(so_far, sums, strict=True)]
        return found


def _upsert(dialect: Dialect) -> str:
    names = [column.name for column in schema.counts.columns]
    added = [column.name for column in schema.counts.columns if not column.primary_key]
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    return (
        f"INSERT INTO counts ({', '.join(names)}) VALUES ({', '.join([mark] * len(names))}) "
        "ON CONFLICT (series, minutes, minute, complete) DO UPDATE SET "
        + ", ".join(f"{name} = counts.{name} + excluded.{name}" for name in added)
    )
