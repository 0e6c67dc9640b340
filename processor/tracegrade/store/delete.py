"""Deletion of traces on request: all rows that hold something of them, and all bytes of these rows."""

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Connection, Engine, select, update
from sqlalchemy.exc import OperationalError

from tracegrade.codec.kept_spans import decode_spans
from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_summary
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import session_trace_id
from tracegrade.store.arrivals import number_range
from tracegrade.store.counts import CountChanges
from tracegrade.store.database import Alive
from tracegrade.store.diagnosis import named_traces, without_traces
from tracegrade.store.open import one_at_a_time
from tracegrade.store.registry import database
from tracegrade.store.run_numbers import run_ranges
from tracegrade.store.schema import alerts, traces

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
    for number, rows in connection.execute(
        select(traces.c.number, traces.c.evaluations).where(
            database(connection).of_ids(sessions), traces.c.members.is_not(None)
        )
    ):
        of_sessions.append(number)
        evaluations += len(orjson.loads(rows))
    if gone := [*numbers, *of_sessions]:
        sums = CountChanges()
        sums.take_back(connection, gone)
        database(connection).delete_traces(connection, gone)
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
