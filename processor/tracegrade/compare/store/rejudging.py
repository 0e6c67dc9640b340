"""Stored traces and sessions with what judging them again needs: kept spans, members, and the decisions so far.

A session that was judged has a row, which names its traces. One that no rule judged has none: its traces name it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import orjson
from sqlalchemy import Connection, Select, bindparam, case, literal, null, select

from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_summary
from tracegrade.model.trace import Trace
from tracegrade.store.database import in_parts, rows_in
from tracegrade.store.index import number_range, numbers_of
from tracegrade.store.registry import database
from tracegrade.store.result_filter import ResultFilter, of_traces
from tracegrade.store.schema import LIVE, traces

# So many traces or sessions a query: between two queries nothing keeps SQLite's log from being written back.
_TOGETHER = 256
_COLUMNS = (
    "number",
    "tenant",
    "trace_id",
    "revision",
    "close_reason",
    "complete",
    "cut_by",
    "first_received_ns",
    "last_received_ns",
    "first_position",
    "closed_ns",
    "rule_set_hash",
    "span_count",
    "decisions",
)
TraceKey: TypeAlias = tuple[str, bytes]
"""Tenant and trace id."""

UNKNOWN = "unknown"
"""What an incomplete trace lacks whose summary is damaged."""
_KNOWN = [traces.c[name] for name in _COLUMNS]
# What an incomplete trace lacks is known to its summary alone.
_SUMMARY_OF_INCOMPLETE = case((traces.c.complete, null()), else_=traces.c.judged).label("summary")


def kept_traces(connection: Connection, result_filter: ResultFilter) -> Iterator[PackedTrace]:
    """The stored traces of a run, tenant, service and time, newest first; a few hundred in memory at a time."""
    query = select(*_KNOWN, traces.c.spans, _SUMMARY_OF_INCOMPLETE).where(traces.c.members.is_(None))
    return map(_packed_trace, _newest_first(connection, result_filter, query))


def _newest_first(connection: Connection, result_filter: ResultFilter, query: Select[Any]) -> Iterator[Any]:
    """The rows of `query` that are of these traces; a few hundred in memory at a time."""
    bounds = numbers_of(connection, result_filter)
    if bounds is None:
        return
    number = traces.c.number
    query = query.where(*of_traces(result_filter), number.between(bounds[0], bindparam("last")))
    query = query.order_by(number.desc()).limit(_TOGETHER)
    last = bounds[1]
    while rows := connection.execute(query, {"last": last}).all():
        yield from rows
        last = rows[-1].number - 1


def kept_traces_of(connection: Connection, run: str, keys: Iterable[TraceKey]) -> dict[TraceKey, PackedTrace]:
    """The stored traces of a run with these keys."""
    wanted = set(keys)
    query = select(*_KNOWN, traces.c.spans, _SUMMARY_OF_INCOMPLETE)
    query = query.where(traces.c.run == run, traces.c.members.is_(None))
    found: dict[TraceKey, PackedTrace] = {}
    for some in in_parts(sorted({trace_id for _, trace_id in wanted})):
        for row in connection.execute(query.where(database(connection).of_ids(some))):
            if (key := (row.tenant, bytes(row.trace_id))) in wanted:
                found[key] = _packed_trace(row)
    return found


def kept_heads(connection: Connection, numbers: Iterable[int]) -> Iterator[PackedTrace]:
    """The stored traces with these numbers, in no order, without spans, and with the journal position of their end.

    Those whose results are damaged, so that this is not known, are left out.
    """
    query = select(*_KNOWN, traces.c.judged.label("summary"), literal(b"").label("spans"))
    for row in rows_in(connection, query, traces.c.number, numbers):
        try:
            last_position = unpack_summary(row.summary).last_position
        except Unreadable:
            continue
        kept = _packed_trace(row)
        kept.trace.last_position = last_position
        yield kept


def _packed_trace(row: Any) -> PackedTrace:
    trace = Trace(
        trace_id=bytes(row.trace_id),
        tenant=row.tenant,
        spans=[],
        close_reason=row.close_reason,
        missing=_missing(row),
        revision=row.revision,
        first_received_ns=row.first_received_ns,
        last_received_ns=row.last_received_ns,
        first_position=row.first_position,
        cut_by=row.cut_by,
        rule_set=row.rule_set_hash,
        closed_ns=row.closed_ns,
    )
    return PackedTrace(row.number, trace, bytes(row.spans), row.span_count, row.decisions)


def _missing(row: Any) -> list[str]:
    if row.complete:
        return []
    try:
        return list(unpack_summary(row.summary).missing)
    except Unreadable:
        return [UNKNOWN]


# Sessions that began so long before the time asked for are whole, if no rule judged them; older ones lack their turns
# from before. To look through all that is stored, for every session, would take as long as the store is old.
_BEFORE_NS = 7 * 24 * 3600 * 10**9


class KeptSession(NamedTuple):
    """A stored session. ``members`` are its traces with their revisions, as `model.session.Session` has them.

    ``number`` is that of its row; without one, when it is not ``judged``, that of its newest trace. ``close_reason`` is
    "" then, too. ``decisions`` are rows of this view, as JSON. ``cut_by`` names the bound that cut it short.
    """

    number: int
    judged: bool
    trace_id: bytes
    tenant: str
    id: str
    revision: int
    members: dict[bytes, int]
    close_reason: str
    cut_by: str | None
    closed_ns: int
    decisions: str


def judged_sessions(connection: Connection, result_filter: ResultFilter) -> Iterator[KeptSession]:
    """The sessions with a row, of a run, tenant, service and time, newest first; a few hundred in memory at a time."""
    known = traces.c
    query = select(
        known.number,
        known.trace_id,
        known.tenant,
        known.session,
        known.revision,
        known.members,
        known.close_reason,
        known.cut_by,
        known.closed_ns,
        known.decisions,
    ).where(known.members.is_not(None))
    for number, trace_id, tenant, name, revision, members, *rest in _newest_first(connection, result_filter, query):
        found = {bytes.fromhex(member): of for member, of in json.loads(members).items()}
        yield KeptSession(number, True, bytes(trace_id), tenant, name, revision, found, *rest)


def sessions_not_judged(connection: Connection, result_filter: ResultFilter) -> list[KeptSession]:
    """The sessions without a row whose trace that came last is of a run, tenant and time; newest first.

    Memory: for each of their traces, its id. Of ``result_filter``, nothing else is asked.
    """
    since_ns, until_ns = result_filter.since_ns, result_filter.until_ns
    bounds = numbers_of(connection, result_filter)
    if bounds is not None and result_filter.run == LIVE:
        bounds = number_range(connection, None if since_ns is None else since_ns - _BEFORE_NS, None)
    if bounds is None:
        return []
    of_run = of_traces(ResultFilter(run=result_filter.run, tenant=result_filter.tenant))
    known = traces.c
    query = select(
        known.number,
        known.trace_id,
        known.tenant,
        known.session,
        known.revision,
        known.members.is_not(None).label("is_session"),
        known.first_received_ns,
        known.closed_ns,
        known.agent_runs,
    ).where(*of_run, known.session.is_not(None), known.number.between(*bounds))
    judged: set[tuple[str, str]] = set()
    found: dict[tuple[str, str], KeptSession] = {}
    received: defaultdict[tuple[str, str], int] = defaultdict(int)  # when the trace that came last did
    rows = connection.execute(query.order_by(known.number).execution_options(yield_per=_TOGETHER))
    for number, trace_id, tenant, name, revision, is_session, first_received_ns, closed_ns, runs in rows:
        if is_session:
            judged.add((tenant, name))
            continue
        # A run that names no session is of that of its trace; of damaged traces of earlier versions, no run is known.
        for named in {run[3] or name for run in orjson.loads(runs)} or {name}:
            before = found.get((tenant, named))
            members = {} if before is None else before.members
            members[bytes(trace_id)] = revision
            received[tenant, named] = max(first_received_ns, received[tenant, named])
            found[tenant, named] = KeptSession(
                number, False, bytes(trace_id), tenant, named, 0, members, "", None, closed_ns, "[]"
            )
    chosen = (
        session
        for key, session in found.items()
        if key not in judged
        and (since_ns is None or received[key] >= since_ns)
        and (until_ns is None or received[key] < until_ns)
    )
    return sorted(chosen, key=lambda session: -session.number)
