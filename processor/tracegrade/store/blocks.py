"""Notes which blocks of traces hold results of a series; searches read this, not an index row for each result."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from tracegrade.store.registry import database
from tracegrade.store.rows import EvaluationRow
from tracegrade.store.schema import BLOCK_TRACES, CHUNK_BLOCKS, CHUNK_TRACES, EVERY_SERIES, blocks

_WIDER = 8
_MOST_CHUNKS = 4096  # less than the largest number of parameters of a query


class Blocks:
    """The additions of one batch of writes to ``blocks``."""

    def __init__(self) -> None:
        # By block, the (series, outcome) pairs in it.
        self._held: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)

    def add(self, number: int, evaluations: Sequence[EvaluationRow]) -> None:
        """Note the results of the trace stored under `number`."""
        self.note(number, [(row[1], row[5]) for row in evaluations])

    def note(self, number: int, held: Sequence[tuple[int, int]]) -> None:
        """Note that the trace stored under `number` holds results of these series and outcomes."""
        self._held[number // BLOCK_TRACES].update(held)

    def write(self, connection: Connection) -> None:
        """Add the notes to those stored."""
        bits: defaultdict[tuple[int, int, int], int] = defaultdict(int)
        for block, held in self._held.items():
            chunk, place = divmod(block, CHUNK_BLOCKS)
            for series, outcome in held | {(EVERY_SERIES, outcome) for _, outcome in held}:
                bits[chunk, series, outcome] |= 1 << place
        rows = [(*key, value) for key, value in sorted(bits.items())]
        database(connection).insert_or_change(connection, blocks, rows, "held = blocks.held | excluded.held")


def block_ranges(
    connection: Connection, chosen: Sequence[int], outcomes: Sequence[int], low: int, high: int
) -> Iterator[tuple[int, int]]:
    """Ranges of trace numbers from `low` to `high` that together hold all results of the `chosen` series, newest first.

    They hold other results too: deleted and replaced traces stay noted. Each query reads more chunks than the one
    before it, in O(series x outcomes x chunks) time; a chunk is some thousand traces.
    """
    last, lowest, width = high // CHUNK_TRACES, low // CHUNK_TRACES, 1
    while last >= lowest:
        first = max(lowest, last - width + 1)
        query = select(blocks.c.chunk, blocks.c.held).where(
            # Each chunk by its number, so that every part of the key is looked up; a range of chunks would read all
            # series.
            blocks.c.chunk.in_(range(first, last + 1)),
            blocks.c.series.in_(chosen),
            blocks.c.outcome.in_(outcomes),
        )
        found: defaultdict[int, int] = defaultdict(int)
        for chunk, held in connection.execute(query):
            found[chunk] |= held
        for chunk in sorted(found, reverse=True):
            for place in reversed(range(CHUNK_BLOCKS)):
                begin = chunk * CHUNK_TRACES + place * BLOCK_TRACES
                end = begin + BLOCK_TRACES - 1
                if found[chunk] >> place & 1 and begin <= high and end >= low:
                    yield max(low, begin), min(high, end)
        last, width = first - 1, min(width * _WIDER, _MOST_CHUNKS)
