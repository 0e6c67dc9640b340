"""Retention: deletes old traces, a few at a time.

What was judged live is as old as the arrival of its first span. A run is as old as its last writing, since it may hold
traces that were recorded long before: all its traces go then, and its row and counts stay.
"""

from sqlalchemy import Connection, Engine, delete, func, select, update

from tracegrade.store.arrivals import number_range
from tracegrade.store.blocks import CHUNK_TRACES
from tracegrade.store.delete import forget_examples
from tracegrade.store.incidents import delete_resolved
from tracegrade.store.open import one_at_a_time
from tracegrade.store.partitions import drop_expired, soon_dropped
from tracegrade.store.run_numbers import traces_of_run
from tracegrade.store.schema import COUNTED_MINUTES, LIVE, MINUTE_NS, arrivals, backfills, blocks, counts, runs, traces
from tracegrade.store.write import delete_traces

_NONE_LEFT = 2**63 - 1


def delete_older(engine: Engine, before_ns: int, *, max_traces: int = 1000) -> int:
    """Delete traces first received before `before_ns`, and those of runs last written before it; the oldest first.

    Their results go with them. In one short transaction, so that another writer waits only milliseconds: call it again
    until it returns 0. The last call also deletes counts and resolved alerts of that age, and single traces from what
    alerts of that age say; the counts of a day once the whole day is that old. With PostgreSQL, it drops whole parts of
    ``traces``, and their traces stay for up to a day longer, and are not counted as deleted.

    Returns:
        The number of traces deleted, at most `max_traces`.
    """
    with engine.begin() as connection:
        one_at_a_time(connection)
        numbers = _oldest(connection, before_ns, max_traces) or _of_old_runs(connection, before_ns, max_traces)
        if numbers:
            delete_traces(connection, numbers)
        else:
            for minutes in COUNTED_MINUTES:
                over = counts.c.minute <= before_ns // MINUTE_NS - minutes
                connection.execute(delete(counts).where(counts.c.minutes == minutes, over))
            kept_from = connection.execute(select(func.coalesce(func.min(traces.c.number), _NONE_LEFT))).scalar_one()
            connection.execute(delete(blocks).where(blocks.c.chunk < kept_from // CHUNK_TRACES))
            connection.execute(delete(arrivals).where(arrivals.c.minute < before_ns // MINUTE_NS))
            connection.execute(delete(backfills).where(backfills.c.until_ns <= before_ns))
            delete_resolved(connection, before_ns)
            forget_examples(connection, before_ns)
    if not numbers:
        drop_expired(engine, before_ns)
    return len(numbers)


def delete_old_runs(engine: Engine, before_ns: int, *, max_traces: int = 1000) -> int:
    """Delete traces of runs last written before `before_ns`, and nothing that was judged live; as `delete_older`."""
    with engine.begin() as connection:
        one_at_a_time(connection)
        numbers = _of_old_runs(connection, before_ns, max_traces)
        if numbers:
            delete_traces(connection, numbers)
    return len(numbers)


def _oldest(connection: Connection, before_ns: int, limit: int) -> list[int]:
    bounds = number_range(connection, None, before_ns)
    if bounds is None:
        return []
    query = select(traces.c.number).where(
        traces.c.number.between(*bounds), traces.c.first_received_ns < before_ns, traces.c.run == LIVE
    )
    for part in soon_dropped(connection, before_ns):
        query = query.where(~traces.c.number.between(part.first, part.end - 1))
    return list(connection.execute(query.order_by(traces.c.number).limit(limit)).scalars())


def _of_old_runs(connection: Connection, before_ns: int, limit: int) -> list[int]:
    """Traces of a run that was last written before `before_ns`; a run that has none left is noted as emptied."""
    for run in connection.execute(select(runs).where(runs.c.written_ns < before_ns, runs.c.emptied.is_(False))).all():
        if found := traces_of_run(connection, run.tenant, run.name, limit):
            return found
        same = (runs.c.tenant == run.tenant, runs.c.name == run.name)
        connection.execute(update(runs).where(*same).values(emptied=True))
    return []
