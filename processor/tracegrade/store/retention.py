"""Retention: deletes old traces, a few at a time.

What was judged live is as old as the arrival of its first span. A run is as old as its last writing, since it may hold
traces that were recorded long before: all its traces go then, and its row and counts stay.
"""

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, delete, false, func, or_, select, tuple_, update

from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_result
from tracegrade.codec.without_values import result_without_values
from tracegrade.model.trace_result import VALUES_GONE
from tracegrade.store.arrivals import number_range
from tracegrade.store.delete import forget_examples
from tracegrade.store.incidents import delete_resolved
from tracegrade.store.open import one_at_a_time
from tracegrade.store.registry import database
from tracegrade.store.run_numbers import traces_of_run
from tracegrade.store.schema import (
    CHUNK_TRACES,
    COUNTED_MINUTES,
    LIVE,
    MINUTE_NS,
    arrivals,
    backfills,
    blocks,
    counts,
    runs,
    traces,
)

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
            database(connection).delete_traces(connection, numbers)
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
        database(engine).drop_expired(engine, before_ns)
    return len(numbers)


def delete_older_of(
    engine: Engine, tenant: str, since_ns: int | None, before_ns: int, *, max_traces: int = 1000
) -> int:
    """As `delete_older`, of what was judged live of one tenant and received from `since_ns` on; None: from the first.

    Counts stay, so that rates of that time still stand.
    """
    with engine.begin() as connection:
        one_at_a_time(connection)
        numbers = _oldest(connection, before_ns, max_traces, traces.c.tenant == tenant, since_ns=since_ns)
        if numbers:
            database(connection).delete_traces(connection, numbers)
    return len(numbers)


def delete_old_values(
    engine: Engine, since_ns: int | None, before_ns: int, after: int = 0, *, max_traces: int = 200
) -> int | None:
    """Delete the values of traces first received in a time, and those of runs last written in it.

    Names, ids, times and scores stay. The bytes are overwritten in a SQLite file as they are deleted.

    Args:
        engine: open for writing.
        since_ns: ns since 1970 UTC; None for all that is older than `before_ns`.
        before_ns: ns since 1970 UTC.
        after: only of traces with a higher number.
        max_traces: how many are looked at in one short transaction, so that another writer waits only milliseconds.

    Returns:
        The highest number that was looked at: call it again from there. None when there are no more.
    """
    with engine.begin() as connection:
        database(connection).overwrite_what_goes(connection)
        one_at_a_time(connection)
        rows = connection.execute(_with_old_values(connection, since_ns or 0, before_ns, after).limit(max_traces)).all()
        for number, judged, spans in rows:
            if bytes(spans) != VALUES_GONE:
                left = {"judged": _without_values(bytes(judged), bytes(spans)), "spans": VALUES_GONE}
                connection.execute(update(traces).where(traces.c.number == number).values(left))
        if not rows:
            forget_examples(connection, before_ns)
    return rows[-1].number if rows else None


def _with_old_values(connection: Connection, since_ns: int, before_ns: int, after: int) -> Select[int, bytes, bytes]:
    """Number and packed content of what was received, or of what a run that was written, in a time, by number."""
    number = traces.c.number
    old_runs = and_(runs.c.written_ns >= since_ns, runs.c.written_ns < before_ns, runs.c.first_number.is_not(None))
    within = [
        number.between(first, last)
        for first, last in connection.execute(select(runs.c.first_number, runs.c.last_number).where(old_runs))
    ]
    if (bounds := number_range(connection, since_ns, before_ns)) is not None:
        within.append(number.between(*bounds))
    of_live = and_(traces.c.run == LIVE, traces.c.first_received_ns >= since_ns, traces.c.first_received_ns < before_ns)
    of_runs = tuple_(traces.c.tenant, traces.c.run).in_(select(runs.c.tenant, runs.c.name).where(old_runs))
    chosen = (or_(false(), *within), number > after, or_(of_live, of_runs))
    return select(number, traces.c.judged, traces.c.spans).where(*chosen).order_by(number)


def _without_values(judged: bytes, spans: bytes) -> bytes:
    try:
        return result_without_values(unpack_result(judged, spans)).packed
    except Unreadable:
        return judged  # nobody can read it


def delete_old_runs(engine: Engine, before_ns: int, *, max_traces: int = 1000) -> int:
    """Delete traces of runs last written before `before_ns`, and nothing that was judged live; as `delete_older`."""
    with engine.begin() as connection:
        one_at_a_time(connection)
        numbers = _of_old_runs(connection, before_ns, max_traces)
        if numbers:
            database(connection).delete_traces(connection, numbers)
    return len(numbers)


def _oldest(
    connection: Connection, before_ns: int, limit: int, *which: ColumnElement[bool], since_ns: int | None = None
) -> list[int]:
    bounds = number_range(connection, since_ns, before_ns)
    if bounds is None:
        return []
    query = select(traces.c.number).where(
        traces.c.number.between(*bounds), traces.c.first_received_ns < before_ns, traces.c.run == LIVE, *which
    )
    for part in database(connection).soon_dropped(connection, before_ns):
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
