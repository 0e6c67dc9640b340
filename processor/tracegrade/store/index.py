"""Finds traces by number: those of a time, of a run, with results of some series, or spread over a time.

Traces are numbered as they are stored. ``arrivals`` has the numbers of each minute, for what was judged live; times do
not find the traces of a run, since it may hold any that were ever recorded, so ``runs`` has the numbers of each.
``blocks`` notes which blocks of traces hold results of a series: searches read this, not an index row for each result.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, case, func, select, update

from tracegrade.model.errors import TraceGradeError
from tracegrade.store.registry import database
from tracegrade.store.result_filter import ResultFilter, of_traces
from tracegrade.store.schema import (
    BLOCK_TRACES,
    CHUNK_BLOCKS,
    CHUNK_TRACES,
    EVERY_SERIES,
    LIVE,
    MINUTE_NS,
    EvaluationRow,
    arrivals,
    blocks,
    runs,
    traces,
)


class Arrivals:
    """The changes of one batch of writes to ``arrivals``."""

    def __init__(self) -> None:
        self._bounds: dict[int, tuple[int, int]] = {}

    def add(self, first_received_ns: int, number: int) -> None:
        """Note the trace stored under `number`; numbers increase within a batch."""
        minute = first_received_ns // MINUTE_NS
        self._bounds[minute] = (self._bounds.get(minute, (number,))[0], number)

    def write(self, connection: Connection) -> None:
        """Write the noted numbers: they widen the stored ranges."""
        database(connection).insert_or_change(
            connection,
            arrivals,
            # Sorted, so that several writers wait for each other in the same order.
            sorted((minute, *bounds) for minute, bounds in self._bounds.items()),
            # Numbers of deleted traces are used again: a later trace may have a lower one.
            "first_number = CASE WHEN excluded.first_number < arrivals.first_number THEN excluded.first_number "
            "ELSE arrivals.first_number END, "
            "last_number = CASE WHEN excluded.last_number > arrivals.last_number THEN excluded.last_number "
            "ELSE arrivals.last_number END",
        )


def number_range(connection: Connection, since_ns: int | None, until_ns: int | None) -> tuple[int, int] | None:
    """The lowest and highest number that a trace first received in this time may have; None when there is none."""
    query = select(func.min(arrivals.c.first_number), func.max(arrivals.c.last_number))
    if since_ns is None and until_ns is None:  # any time: two index lookups instead of a row for each minute
        ends = (func.min(traces.c.number), func.max(traces.c.number))
        query = select(*(select(end).scalar_subquery() for end in ends))
    if since_ns is not None:
        query = query.where(arrivals.c.minute >= since_ns // MINUTE_NS)
    if until_ns is not None:
        query = query.where(arrivals.c.minute <= (until_ns - 1) // MINUTE_NS)
    low, high = connection.execute(query).one()
    return None if low is None else (low, high)


def first_arrival(connection: Connection, since_ns: int) -> int | None:
    """The first minute from that of `since_ns` on in which a trace was received, as ns since 1970 UTC.

    None: there is none. Minutes are of all tenants; where `connection` shows one without such a trace, it is None, too.
    """
    numbers = number_range(connection, since_ns, None)
    if numbers is None:
        return None
    since_minute = since_ns // MINUTE_NS
    since_then = traces.c.first_received_ns >= since_minute * MINUTE_NS
    seen = select(traces.c.number).where(traces.c.number.between(*numbers), since_then).limit(1)
    if connection.execute(seen).first() is None:
        return None
    first = select(func.min(arrivals.c.minute)).where(arrivals.c.minute >= since_minute)
    minute: int = connection.execute(first).scalar_one()
    return minute * MINUTE_NS


class RunNumbers:
    """The numbers that one batch of writes gives to traces of runs."""

    def __init__(self) -> None:
        self._bounds: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, tenant: str, run: str, number: int) -> None:
        """Note a trace stored under `number`; numbers increase within a batch."""
        key = (tenant, run)
        self._bounds[key] = (self._bounds.get(key, (number,))[0], number)

    def write(self, connection: Connection) -> None:
        """Widen the stored ranges.

        Raises:
            TraceGradeError: a run takes no results.
        """
        for (tenant, run), (first, last) in sorted(self._bounds.items()):
            known_first, known_last = runs.c.first_number, runs.c.last_number
            changed = connection.execute(
                update(runs)
                .where(runs.c.tenant == tenant, runs.c.name == run, runs.c.state == "incomplete")
                .values(
                    # Numbers of deleted traces are used again: a later trace may have a lower one.
                    first_number=case((known_first < first, known_first), else_=first),
                    last_number=case((known_last > last, known_last), else_=last),
                    emptied=False,
                )
            )
            if not changed.rowcount:
                raise TraceGradeError(
                    f"run {run!r} of tenant {tenant!r} takes no more results: it was deleted or completed meanwhile"
                )


def numbers_of(connection: Connection, result_filter: ResultFilter) -> tuple[int, int] | None:
    """The lowest and highest number that a trace selected by `result_filter` may have; None when there is none."""
    if result_filter.stored_as == LIVE:
        return number_range(connection, result_filter.since_ns, result_filter.until_ns)
    query = select(func.min(runs.c.first_number), func.max(runs.c.last_number)).where(runs.c.name == result_filter.run)
    if result_filter.tenant is not None:
        query = query.where(runs.c.tenant == result_filter.tenant)
    low, high = connection.execute(query).one()
    return None if low is None else (low, high)


def run_ranges(connection: Connection) -> list[tuple[int, int]]:
    """The lowest and highest number that a trace of each run may have; others have numbers between them, too."""
    query = select(runs.c.first_number, runs.c.last_number).where(runs.c.first_number.is_not(None))
    return [(first, last) for first, last in connection.execute(query)]


def traces_of_run(connection: Connection, tenant: str, run: str, limit: int) -> list[int]:
    """The numbers of the first traces and sessions of a run, at most `limit`."""
    bounds = numbers_of(connection, ResultFilter(tenant=tenant, run=run))
    if bounds is None:
        return []
    query = select(traces.c.number).where(
        traces.c.number.between(*bounds), traces.c.run == run, traces.c.tenant == tenant
    )
    return list(connection.execute(query.order_by(traces.c.number).limit(limit)).scalars())


# Blocks are looked up for at most this many series; those of more series are nearly all of them.
_MAX_SEARCHED_SERIES = 1000
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
    connection: Connection, chosen: Collection[int] | None, outcomes: Sequence[int], low: int, high: int
) -> Iterator[tuple[int, int]]:
    """Ranges of trace numbers from `low` to `high` that together hold all results of the `chosen` series, newest first.

    Of very many series, or None for all, the ranges hold a result of any.
    They hold other results too: deleted and replaced traces stay noted. Each query reads more chunks than the one
    before it, in O(series x outcomes x chunks) time; a chunk is some thousand traces.
    """
    searched = [EVERY_SERIES] if chosen is None or len(chosen) > _MAX_SEARCHED_SERIES else list(chosen)
    last, lowest, width = high // CHUNK_TRACES, low // CHUNK_TRACES, 1
    while last >= lowest:
        first = max(lowest, last - width + 1)
        query = select(blocks.c.chunk, blocks.c.held).where(
            # Each chunk by its number, so that every part of the key is looked up; a range of chunks would read all
            # series.
            blocks.c.chunk.in_(range(first, last + 1)),
            blocks.c.series.in_(searched),
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


MOST_BLOCKS = 64
"""So many blocks are read at most, and in each so many traces as a block holds."""

MOST_ROWS = MOST_BLOCKS * BLOCK_TRACES

_READ = ("number", "trace_id", "first_received_ns", "evaluations", "decisions", "tool_calls", "agent_runs")


def spread(
    connection: Connection, result_filter: ResultFilter, chosen: Sequence[int], outcomes: Sequence[int]
) -> Iterator[list[Any]]:
    """Rows of ``traces`` that are spread evenly over the time of `result_filter`, a block at a time.

    Every beginning of them is spread evenly, too, so one may stop when there are enough. Where results are few, these
    are all of them.

    Args:
        connection: on the store.
        result_filter: which traces; its time must have an end.
        chosen: numbers of series: only blocks that hold one of their results are read. Others of these traces may not
            have one.
        outcomes: of these outcomes, as numbers.

    Returns:
        At most `MOST_ROWS` rows, each with the columns that name it and its lists, without values.
    """
    bounds = numbers_of(connection, result_filter)
    if bounds is None or not chosen:
        return
    query = select(*(traces.c[name] for name in _READ)).where(*of_traces(result_filter)).order_by(traces.c.number)
    blocks = list(block_ranges(connection, chosen, outcomes, *bounds))[::-1]
    most = min(MOST_BLOCKS, len(blocks))
    for place in _evenly(most):
        first, last = blocks[place * len(blocks) // most]
        yield list(connection.execute(query.where(traces.c.number.between(first, last))))


def _evenly(count: int) -> list[int]:
    """0 to `count` - 1, so ordered that every beginning is spread evenly: halves, then quarters, then eighths."""
    digits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda number: int(f"{number:0{digits}b}"[::-1], 2))
