"""PostgreSQL's partitions of ``traces``: each holds the traces that were stored in about a day.

Parts are ranges of numbers, which grow, so every row has its part, and whoever reads a range of numbers reads the parts
that hold it. The next part is made before it is needed, as large as the traces of the last day are many. When all
traces of a part are older than the retention, the whole part is dropped: to delete its rows one by one, and to clean up
after that, takes longer than it took to write them.
"""

import logging
import re
import time

from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import OperationalError

from tracegrade.store.database import Partition
from tracegrade.store.schema import CHUNK_TRACES, DAY_MINUTES, MINUTE_NS, arrivals, runs, trace_keys, traces

# A store with few traces need not have many parts; dropping one at once must not keep much longer than was asked for.
SMALLEST = 32 * CHUNK_TRACES
LARGEST = 8192 * CHUNK_TRACES
# So long, whoever wants to read or write waits behind us while somebody else reads a part that is to be dropped.
_WAITS_MS = 500
_TAKEN_OUT = "dropped_traces_"

logger = logging.getLogger(__name__)


def partitions(connection: Connection) -> list[Partition]:
    """All partitions, the oldest first."""
    found = connection.execute(
        text(
            "SELECT part.relname, pg_get_expr(part.relpartbound, part.oid) FROM pg_inherits "
            "JOIN pg_class AS part ON part.oid = inhrelid WHERE inhparent = 'traces'::regclass"
        )
    )
    return sorted((_part(*row) for row in found), key=lambda part: part.first)


def make_room(connection: Connection, number: int) -> int:
    """Make partitions for `number` and beyond. Returns the first number of the last one, above `number`."""
    last = partitions(connection)[-1]
    while last.first <= number:
        last = _add(connection, last.end, _size(connection, number))
    return last.first


def soon_dropped(connection: Connection, before_ns: int) -> list[Partition]:
    """The parts that `drop_expired` will drop within a day: their rows need not be deleted one by one."""
    return _expired(connection, before_ns + DAY_MINUTES * MINUTE_NS)


def drop_expired(engine: Engine, before_ns: int) -> int:
    """Drop the parts whose traces were all first received before a time, and no run that is kept has one.

    A part is taken out of ``traces`` first, at once or not at all. Only then are the ids of its traces forgotten, which
    takes long: so whatever can be found by a range of numbers can be found by its id. What a kill leaves undone, the
    next call does.

    Returns:
        How many were dropped. One that somebody reads is left for the next call.
    """
    with engine.connect() as connection:
        expired = _expired(connection, before_ns)
    for part in expired:
        try:
            with engine.begin() as connection:
                connection.execute(text(f"SET LOCAL lock_timeout = {_WAITS_MS}"))
                connection.execute(text(f"ALTER TABLE traces DETACH PARTITION {part.table}"))
                connection.execute(text(f"ALTER TABLE {part.table} RENAME TO {_TAKEN_OUT}{part.first}_{part.end}"))
        except OperationalError as error:
            logger.info("%s is not dropped yet, since somebody reads it: %s", part.table, error.orig)
            break
    return _drop_taken_out(engine)


def _drop_taken_out(engine: Engine) -> int:
    """Forget the traces of the parts that were taken out, and drop these. Returns how many."""
    with engine.connect() as connection:
        known = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE :named"
        found = connection.execute(text(known), {"named": _TAKEN_OUT.replace("_", r"\_") + "%"}).scalars().all()
    for table in found:
        first, end = map(int, table.removeprefix(_TAKEN_OUT).split("_"))
        with engine.begin() as connection:
            connection.execute(trace_keys.delete().where(trace_keys.c.number.between(first, end - 1)))
        with engine.begin() as connection:
            connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
        logger.info("dropped the traces of numbers %s to %s: all are older than the retention", first, end - 1)
    return len(found)


def _expired(connection: Connection, before_ns: int) -> list[Partition]:
    newest = connection.execute(select(func.max(traces.c.number))).scalar()
    return [
        part
        for part in partitions(connection)
        if newest is not None and part.end <= newest and _all_are_older(connection, part, before_ns)
    ]


def _all_are_older(connection: Connection, part: Partition, before_ns: int) -> bool:
    overlapping = (arrivals.c.first_number < part.end, arrivals.c.last_number >= part.first)
    minute = connection.execute(select(func.max(arrivals.c.minute)).where(*overlapping)).scalar()
    if minute is not None and (minute + 1) * MINUTE_NS > before_ns:
        return False
    has_some = (runs.c.first_number < part.end, runs.c.last_number >= part.first)
    kept = select(runs.c.name).where(runs.c.written_ns >= before_ns, *has_some).limit(1)
    return connection.execute(kept).first() is None


def _size(connection: Connection, number: int) -> int:
    """As many numbers as the traces of the last day took, in whole chunks."""
    since = time.time_ns() // MINUTE_NS - DAY_MINUTES
    first = connection.execute(select(func.min(arrivals.c.first_number)).where(arrivals.c.minute >= since)).scalar()
    stored = 0 if first is None else number - first
    return min(max(SMALLEST, -(-stored // CHUNK_TRACES) * CHUNK_TRACES), LARGEST)


def _add(connection: Connection, first: int, size: int) -> Partition:
    """Make a part. Nobody who reads or writes ``traces`` waits for it."""
    part = Partition(f"traces_{first}", first, first + size)
    as_traces = "LIKE traces INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION"
    bounds = f"FOR VALUES FROM ({part.first}) TO ({part.end})"
    connection.execute(text(f"CREATE TABLE {part.table} ({as_traces})"))
    connection.execute(text(f"ALTER TABLE traces ATTACH PARTITION {part.table} {bounds}"))
    return part


def _part(table: str, bounds: str) -> Partition:
    """From such as ``FOR VALUES FROM (MINVALUE) TO ('65537')``."""
    found = re.fullmatch(r"FOR VALUES FROM \('?(\d+|MINVALUE)'?\) TO \('?(\d+)'?\)", bounds)
    assert found is not None, bounds
    first, end = found.groups()
    return Partition(table, 0 if first == "MINVALUE" else int(first), int(end))
