"""Stored traces and sessions as a whole, by their ids, and the closed traces that assembly asks for.

`tracegrade.store.heads` lists traces and sessions, `tracegrade.store.results` results.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, func, select

from tracegrade.codec.json_text import storable
from tracegrade.codec.results import unpack_summary
from tracegrade.codec.whole_results import whole_result
from tracegrade.model.session import TURN, session_trace_id
from tracegrade.model.trace import Trace
from tracegrade.model.trace_result import VALUES_GONE, TraceResult, TraceSummary
from tracegrade.store.database import in_parts, rows_in
from tracegrade.store.index import numbers_of
from tracegrade.store.registry import database
from tracegrade.store.result_filter import ResultFilter, of_traces
from tracegrade.store.schema import traces


def newest_number(connection: Connection) -> int:
    """The number of the trace that was stored last, which increases with every closing; 0 in an empty store."""
    found: int = connection.execute(select(func.coalesce(func.max(traces.c.number), 0))).scalar_one()
    return found


def changing_mark(connection: Connection) -> str:
    """A text that changes with every trace that is stored.

    The newest number alone does not tell it where several processes write to one PostgreSQL: a batch with lower numbers
    may become visible after one with higher ones.
    """
    newest = newest_number(connection)
    if database(connection).is_file:
        return str(newest)
    near = select(func.count()).select_from(traces).where(traces.c.number > newest - _NUMBERS_STORED_AT_ONCE)
    return f"{newest}/{connection.execute(near).scalar_one()}"


# Of all batches that are being written at one time, and some more.
_NUMBERS_STORED_AT_ONCE = 8192
_MAX_TURNS_SEARCHED = 20_000


def stored_traces(connection: Connection, trace_id: bytes, *, run: str = "live") -> list[TraceResult]:
    """The trace, or session, of this id with all its results: one for each tenant, [] when it is not stored."""
    stored_as = ResultFilter(run=run).stored_as
    query = (
        select(traces.c.judged, traces.c.spans)
        .where(database(connection).of_ids([trace_id]), traces.c.run == stored_as)
        .order_by(traces.c.tenant)
    )
    found = []
    for judged, spans in connection.execute(query):
        found.append(whole_result(judged, bytes(spans)))
    return found


def sessions_of(connection: Connection, stored: TraceResult) -> list[TraceResult]:
    """The sessions that a stored trace is part of, if they were judged."""
    head = stored.trace
    own = [session_trace_id(head.tenant, name) for name in head.sessions]
    query = select(traces.c.trace_id, traces.c.judged, traces.c.spans)
    found: dict[bytes, TraceResult] = {}
    for some in in_parts(own):
        chosen = (database(connection).of_ids(some), *_beside(head))
        for trace_id, judged, spans in connection.execute(query.where(*chosen)):
            found[bytes(trace_id)] = whole_result(judged, bytes(spans))
    return [found[trace_id] for trace_id in own if trace_id in found]


def traces_of(connection: Connection, stored: TraceResult) -> list[TraceResult]:
    """A stored trace itself; for a session, those of its traces that are stored."""
    head, members = stored.trace, stored.trace.members
    if members is None:
        return [stored]
    found = [trace for trace_id in members for trace in stored_traces(connection, trace_id, run=head.run)]
    return [trace for trace in found if trace.trace.tenant == head.tenant and trace.trace.members is None]


def earlier_turns(connection: Connection, stored: TraceResult, limit: int) -> list[TraceResult]:
    """The traces of a stored trace's sessions that began before it, the latest first, at most `limit`.

    All traces of sessions that were judged; of other sessions, those among the latest `_MAX_TURNS_SEARCHED` traces.
    """
    head = stored.trace
    ids = {trace_id for session in sessions_of(connection, stored) for trace_id in session.trace.members or ()}
    is_turn = (*_beside(head), traces.c.members.is_(None))
    own = database(connection).of_ids([bytes.fromhex(head.trace_id)])
    number = connection.execute(select(traces.c.number).where(own, *is_turn)).scalar()
    query = select(traces.c.start_ns, traces.c.number).where(*is_turn, traces.c.start_ns < head.start_ns)
    turns: set[tuple[int, int]] = set()
    if number is not None:
        near = query.where(traces.c.number.between(number - _MAX_TURNS_SEARCHED, number - 1))
        turns.update(map(tuple, rows_in(connection, near, traces.c.session, map(storable, head.sessions))))
    for some in in_parts(sorted(ids)):
        turns.update(map(tuple, connection.execute(query.where(database(connection).of_ids(some)))))
    latest = [number for _, number in sorted(turns, reverse=True)[:limit]]
    whole = select(traces.c.number, traces.c.judged, traces.c.spans)
    found = {row.number: row for row in rows_in(connection, whole, traces.c.number, latest)}
    return [whole_result(found[number].judged, bytes(found[number].spans)) for number in latest]


def _beside(head: TraceSummary) -> tuple[ColumnElement[bool], ...]:
    return traces.c.tenant == head.tenant, traces.c.run == head.run


def stored_session(connection: Connection, tenant: str, session_id: str) -> TraceSummary | None:
    """The session of this id, if it was judged live."""
    return stored_summary(connection, tenant, session_trace_id(tenant, session_id))


def stored_summary(connection: Connection, tenant: str, own_id: bytes) -> TraceSummary | None:
    """The summary of the trace or session that is stored under this id, if it was judged live."""
    query = _LIVE.where(database(connection).of_ids([own_id]), traces.c.tenant == tenant)
    judged = connection.execute(query).scalar()
    return None if judged is None else unpack_summary(judged)


def sessions_going_on(connection: Connection) -> list[TraceSummary]:
    """The sessions that have not ended, in the order in which their last traces closed."""
    query = _LIVE.where(traces.c.close_reason == TURN).order_by(traces.c.closed_ns)
    return [unpack_summary(judged) for judged in connection.execute(query).scalars()]


_LIVE = select(traces.c.judged).where(traces.c.run == "live")


def newest_traces(connection: Connection, limit: int, *, sessions: bool = False) -> Iterator[TraceResult]:
    """The newest traces, or sessions, judged live, newest first, at most `limit`; a few in memory at a time."""
    is_of_kind = traces.c.members.is_not(None) if sessions else traces.c.members.is_(None)
    query = select(traces.c.judged, traces.c.spans).where(traces.c.run == "live", is_of_kind)
    query = query.order_by(traces.c.number.desc())
    for judged, spans in connection.execute(query.limit(limit).execution_options(yield_per=64)):
        yield whole_result(judged, bytes(spans))


def results_of_traces(connection: Connection, result_filter: ResultFilter) -> Iterator[TraceResult]:
    """The stored traces of a run, tenant and time, newest first; a few in memory at a time."""
    bounds = numbers_of(connection, result_filter)
    if bounds is None:
        return
    query = select(traces.c.judged, traces.c.spans).where(*of_traces(result_filter))
    query = query.where(traces.c.members.is_(None), traces.c.number.between(*bounds)).order_by(traces.c.number.desc())
    for judged, spans in connection.execute(query.execution_options(yield_per=64)):
        yield whole_result(judged, bytes(spans))


def closed_traces(connection: Connection, keys: Sequence[tuple[str, bytes]]) -> dict[tuple[str, bytes], Trace]:
    """The traces of `keys` (tenant, trace id) that were judged live; one query for each 500 keys.

    Their results are not read, so close reason and missing parts are empty. Spans that are kept as they came stay so.
    One whose values were deleted is as one that closed in 1970: what comes of it is too late, and its session lacks it.

    Raises:
        Unreadable: the spans of one are damaged, or were stored by another version.
    """
    from tracegrade.codec.kept_spans import decode_spans  # only for judging: see `whole_result`

    found: dict[tuple[str, bytes], Trace] = {}
    for some in in_parts(keys):
        # Through the driver: assembly asks for every new trace, and SQLAlchemy takes 2 µs an id to write an IN list.
        chosen = database(connection).of_ids_text(len(some))
        rows = connection.exec_driver_sql(
            "SELECT tenant, trace_id, closed_ns, first_received_ns, last_received_ns, first_position, revision, "
            f"cut_by, rule_set_hash, spans FROM traces WHERE {chosen} AND run = 'live'",
            tuple(trace_id for _, trace_id in some),
        ).all()
        wanted = set(some) if rows else set()
        for row in rows:
            if (key := (row.tenant, bytes(row.trace_id))) in wanted:
                if bytes(row.spans) == VALUES_GONE:
                    found[key] = _without_spans(*key)
                    continue
                kept = decode_spans(bytes(row.spans), as_they_came=True)
                found[key] = Trace(
                    trace_id=key[1],
                    tenant=row.tenant,
                    spans=kept.spans,
                    close_reason="",
                    missing=[],
                    revision=row.revision,
                    first_received_ns=row.first_received_ns,
                    last_received_ns=row.last_received_ns,
                    first_position=row.first_position,
                    cut_by=row.cut_by,
                    replaced=kept.replaced,
                    rule_set=row.rule_set_hash,
                    filter_hash=kept.filter_hash,
                    closed_ns=row.closed_ns,
                    log_records=kept.log_records,
                )
    return found


def _without_spans(tenant: str, trace_id: bytes) -> Trace:
    return Trace(trace_id=trace_id, tenant=tenant, spans=[], close_reason="", missing=[], revision=0)


class PresentIds:
    """Tells whether a store holds any of some traces: asked for every trace that begins, and nearly always with no.

    Asks SQLite through its driver: beginning and ending a transaction, and making a result, take SQLAlchemy longer than
    the query. For one thread at a time.
    """

    def __init__(self, engine: Callable[[], Engine]) -> None:
        """Prepare; `engine` gives the store's, and is called when something is asked."""
        self._engine = engine
        self._connection: Any = None  # SQLAlchemy's, around that of the driver

    def may_be(self, trace_ids: Sequence[bytes]) -> bool:
        """Whether a trace of one of these ids may be there, of any tenant and run; False is certain.

        It is always True of another database, and of a file that cannot be read now: whoever reads it then learns why.
        """
        if not database(self._engine()).is_file:
            return True
        try:
            if self._connection is None:
                self._connection = self._engine().raw_connection()
            cursor = self._connection.cursor()
            for some in in_parts(trace_ids):
                chosen = database(self._engine()).of_ids_text(len(some))
                if cursor.execute(f"SELECT 1 FROM traces WHERE {chosen} LIMIT 1", tuple(some)).fetchall():
                    return True
            return False
        except sqlite3.Error:
            self.close()
            return True

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection = None
