"""Deletion of traces on request, and of old ones: all rows that hold something of them, and all bytes of these rows.

What was judged live is as old as the arrival of its first span. A run is as old as its last writing, since it may hold
traces that were recorded long before: all its traces go then, and its row and counts stay.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, delete, false, func, or_, select, tuple_, update
from sqlalchemy.exc import OperationalError

from tracegrade.codec.kept_spans import decode_spans
from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_result, unpack_summary
from tracegrade.codec.without_values import result_without_values
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import VALUES_GONE
from tracegrade.store.alerts import delete_ended_silences
from tracegrade.store.database import Alive, in_parts
from tracegrade.store.diagnosis import named_traces, without_traces
from tracegrade.store.incidents import delete_resolved
from tracegrade.store.index import number_range, run_ranges, traces_of_run
from tracegrade.store.open import one_at_a_time
from tracegrade.store.registry import database
from tracegrade.store.schema import (
    CHUNK_TRACES,
    COUNTED_MINUTES,
    LIVE,
    MINUTE_NS,
    alerts,
    arrivals,
    backfills,
    blocks,
    counts,
    runs,
    traces,
)
from tracegrade.store.tallies import CountChanges

_TOGETHER = 200
_TRIES = 5


class DeletedRows(NamedTuple):
    """How much was deleted from a store."""

    traces: int = 0
    sessions: int = 0
    evaluations: int = 0
    alerts: int = 0


def traces_of_session(connection: Connection, session_in: Callable[[str], Collection[str]]) -> set[bytes]:
    """The ids of all stored traces with a run of a session; looks at every stored trace.

    Args:
        connection: to the store.
        session_in: the ids that the session may have in a tenant.
    """
    query = select(traces.c.trace_id, traces.c.judged, traces.c.tenant)
    found: set[bytes] = set()
    for trace_id, judged, tenant in connection.execute(query.execution_options(yield_per=64)):
        stored = unpack_summary(judged)
        if not any(session in session_in(tenant) for session in (stored.session, *stored.sessions)):
            continue
        found.update([bytes(trace_id)] if stored.members is None else filter(None, stored.members))
    return found


def traces_of_user(
    connection: Connection, user_in: Callable[[str], Collection[str]], keys: Collection[str]
) -> set[bytes]:
    """The ids of all stored traces with a span or a resource that has one of the attributes `keys` with a user's id.

    Looks at every stored trace.

    Args:
        connection: to the store.
        user_in: the ids that the user may have in a tenant.
        keys: of attributes that name users.
    """

    def is_users(attributes: dict[str, JsonValue], ids: Collection[str]) -> bool:
        return any(key in attributes and str(attributes[key]) in ids for key in keys)

    found: set[bytes] = set()
    query = select(traces.c.trace_id, traces.c.spans, traces.c.tenant).where(traces.c.members.is_(None))
    for trace_id, spans, tenant in connection.execute(query.execution_options(yield_per=64)):
        ids = user_in(tenant)
        try:
            kept = decode_spans(bytes(spans))
        except Unreadable:
            continue  # damaged: its owner is unknown
        if any(is_users(span.attributes, ids) or is_users(span.resource.attributes, ids) for span in kept.spans):
            found.add(bytes(trace_id))
    return found


def traces_before(connection: Connection, before_ns: int) -> set[bytes]:
    """The ids of all stored traces, of any run, that were first received before a time."""
    found: set[bytes] = set()
    query = select(traces.c.trace_id).where(traces.c.first_received_ns < before_ns, traces.c.members.is_(None))
    for bounds in [number_range(connection, None, before_ns), *run_ranges(connection)]:
        if bounds is not None:
            found.update(map(bytes, connection.execute(query.where(traces.c.number.between(*bounds))).scalars()))
    return found


def delete_everywhere(
    engine: Engine, trace_ids: Collection[bytes], alive: Alive = lambda: None, *, tenant: str | None = None
) -> DeletedRows:
    """Delete the traces of these ids, in every run, with their results and the results of their sessions.

    Their counts are subtracted. A transaction deletes a few hundred, so that another writer waits only milliseconds.

    Args:
        engine: opened for writing.
        trace_ids: as bytes, as on the wire.
        alive: called between two transactions.
        tenant: only of this one; None: of all.

    Raises:
        SQLAlchemyError: the database refused; some traces may already be deleted.
    """
    deleted = DeletedRows()
    hex_ids = {trace_id.hex() for trace_id in trace_ids}
    rest = iter(sorted(trace_ids))
    while some := list(islice(rest, _TOGETHER)):
        with engine.begin() as connection:
            one_at_a_time(connection)
            rows = _delete(connection, some, tenant)
        deleted = DeletedRows(*map(sum, zip(deleted, rows, strict=True)))
        alive()
    with engine.begin() as connection:
        one_at_a_time(connection)
        of_tenant = () if tenant is None else (alerts.c.tenant == tenant,)
        named = _forget_in_alerts(connection, lambda _: hex_ids, *of_tenant)
    return deleted._replace(alerts=named)


def _delete(connection: Connection, trace_ids: list[bytes], tenant: str | None) -> DeletedRows:
    numbers: list[int] = []
    sessions: set[bytes] = set()
    evaluations = 0
    place = (traces.c.number, traces.c.tenant, traces.c.judged, traces.c.evaluations)
    meant = [database(connection).of_ids(trace_ids), traces.c.members.is_(None)]
    if tenant is not None:
        meant.append(traces.c.tenant == tenant)
    for number, owner, judged, rows in connection.execute(select(*place).where(*meant)):
        numbers.append(number)
        evaluations += len(orjson.loads(rows))
        names = unpack_summary(judged).sessions
        sessions.update(session_trace_id(owner, name) for name in names)
    of_sessions: list[int] = []
    for some in in_parts(sorted(sessions)):
        meant = [database(connection).of_ids(some), traces.c.members.is_not(None)]
        for number, rows in connection.execute(select(traces.c.number, traces.c.evaluations).where(*meant)):
            of_sessions.append(number)
            evaluations += len(orjson.loads(rows))
    if gone := [*numbers, *of_sessions]:
        sums = CountChanges()
        sums.take_back(connection, gone)
        for part in in_parts(gone):
            database(connection).delete_traces(connection, part)
        sums.write(connection)
    return DeletedRows(len(numbers), len(of_sessions), evaluations)


def forget_examples(connection: Connection, before_ns: int) -> None:
    """Name no traces in alerts that began before a time: their examples are as old."""
    _forget_in_alerts(connection, named_traces, alerts.c.starts_ns < before_ns)


def _forget_in_alerts(
    connection: Connection,
    forgotten: Callable[[Mapping[str, Any]], Collection[str]],
    *which: ColumnElement[bool],
) -> int:
    """Remove traces from the examples in alerts. Returns the number of alerts that changed.

    `forgotten` says of an alert's facts which traces (hex) to remove, `which` chooses alerts.
    """
    changed = 0
    for fingerprint, starts_ns, facts in connection.execute(
        select(alerts.c.fingerprint, alerts.c.starts_ns, alerts.c.facts).where(*which)
    ).all():
        left = without_traces(facts, forgotten(facts))
        if left != facts:
            same = (alerts.c.fingerprint == fingerprint, alerts.c.starts_ns == starts_ns)
            connection.execute(update(alerts).where(*same).values(facts=left))
            changed += 1
    return changed


def overwrite_deleted(engine: Engine, alive: Alive = lambda: None) -> None:
    """Overwrite all bytes of deleted rows in a SQLite file and its log; on PostgreSQL, let their space be used again.

    Raises:
        OperationalError: readers held the log for too long; try again.
    """
    database(engine).overwrite_free(engine, alive)
    cut_log(engine, alive)


def cut_log(engine: Engine, alive: Alive = lambda: None) -> None:
    """Write SQLite's log back into the file and cut it; with PostgreSQL there is none to cut.

    Raises:
        OperationalError: readers held the log for too long; try again.
    """
    for _ in range(_TRIES):
        if database(engine).checkpoint(engine):
            return
        alive()
    raise OperationalError("PRAGMA wal_checkpoint(TRUNCATE)", None, TimeoutError("readers hold the log"))


_NONE_LEFT = 2**63 - 1


def delete_older(engine: Engine, before_ns: int, *, max_traces: int = 1000) -> int:
    """Delete traces first received before `before_ns`, and those of runs last written before it; the oldest first.

    Their results go with them. In one short transaction, so that another writer waits only milliseconds: call it again
    until it returns 0. The last call also deletes counts, resolved alerts and ended silences of that age, and single
    traces from what alerts of that age say; the counts of a day once the whole day is that old. With PostgreSQL, it
    drops whole parts of ``traces``, and their traces stay for up to a day longer, and are not counted as deleted.

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
            database(connection).overwrite_what_goes(connection)  # what people typed goes to the byte
            delete_resolved(connection, before_ns)
            delete_ended_silences(connection, before_ns)
            database(connection).overwrite_what_goes(connection, is_on=False)
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
                left = {"judged": _without_values(bytes(judged), bytes(spans)), "spans": VALUES_GONE, "prompt": None}
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
