"""Which blocks of traces hold results of a series: what a search reads instead of an index row for every result."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select
from sqlalchemy.engine import Dialect

from tracegrade.store.rows import EvaluationRow
from tracegrade.store.schema import BLOCK_TRACES, EVERY_SERIES, blocks

_FIRST_WINDOW = 16
_WIDER = 8


class Blocks:
    """What a batch adds to ``blocks``."""

    def __init__(self) -> None:
        self._places: set[tuple[int, int, int]] = set()

    def add(self, number: int, evaluations: Sequence[EvaluationRow]) -> None:
        """Note the results of the trace stored under `number`."""
        block = number // BLOCK_TRACES
        self._places.update([(row[1], row[5], block) for row in evaluations])

    def write(self, connection: Connection) -> None:
        """Add what was noted to what is stored."""
        if self._places:
            of_any = {(EVERY_SERIES, outcome, block) for _, outcome, block in self._places}
            connection.exec_driver_sql(_insert(connection.dialect), sorted(self._places | of_any))


def block_ranges(
    connection: Connection, chosen: Sequence[int], outcomes: Sequence[int], low: int, high: int
) -> Iterator[tuple[int, int]]:
    """Ranges of trace numbers within `low` to `high` that together hold all results of `chosen` series, newest first.

    They hold others as well: deleted and replaced traces stay noted. O(series x outcomes x log) time to find the
    first, wherever it is.
    """
    last, width = high // BLOCK_TRACES, _FIRST_WINDOW
    lowest = low // BLOCK_TRACES
    while last >= lowest:
        first = max(lowest, last - width + 1)
        query = (
            select(blocks.c.block)
            .where(blocks.c.series.in_(chosen), blocks.c.outcome.in_(outcomes), blocks.c.block.between(first, last))
            .distinct()
            .order_by(blocks.c.block.desc())
        )
        for block in connection.execute(query).scalars().all():
            yield max(low, block * BLOCK_TRACES), min(high, block * BLOCK_TRACES + BLOCK_TRACES - 1)
        last, width = first - 1, width * _WIDER


def _insert(dialect: Dialect) -> str:
    mark = "?" if dialect.paramstyle == "qmark" else "%s"
    return f"INSERT INTO blocks (series, outcome, block) VALUES ({mark}, {mark}, {mark}) ON CONFLICT DO NOTHING"
