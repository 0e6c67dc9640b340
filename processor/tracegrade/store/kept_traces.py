"""Stored traces with what judging them again needs: their kept spans, and the decisions on them so far."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from sqlalchemy import Connection, bindparam, case, literal, null, select

from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.codec.packing import Unreadable
from tracegrade.codec.results import unpack_summary
from tracegrade.model.trace import Trace
from tracegrade.store.database import in_parts
from tracegrade.store.registry import database
from tracegrade.store.result_filter import ResultFilter, of_traces
from tracegrade.store.run_numbers import numbers_of
from tracegrade.store.schema import traces

# So many traces a query: between two queries nothing keeps SQLite's log from being written back.
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


def kept_traces(connection: Connection, result_filter: ResultFilter) -> Iterator[PackedTrace]:
    """The stored traces of a run, tenant, service and time, newest first; a few hundred in memory at a time."""
    bounds = numbers_of(connection, result_filter)
    if bounds is None:
        return
    # What an incomplete trace lacks is known to its summary alone.
    summary = case((traces.c.complete, null()), else_=traces.c.judged).label("summary")
    query = select(*_KNOWN, traces.c.spans, summary).where(*of_traces(result_filter))
    query = query.where(traces.c.members.is_(None), traces.c.number.between(bounds[0], bindparam("last")))
    query = query.order_by(traces.c.number.desc()).limit(_TOGETHER)
    last = bounds[1]
    while rows := connection.execute(query, {"last": last}).all():
        for row in rows:
            yield _kept(row)
        last = rows[-1].number - 1


def kept_traces_of(connection: Connection, run: str, keys: Iterable[TraceKey]) -> dict[TraceKey, PackedTrace]:
    """The stored traces of a run with these keys."""
    wanted = set(keys)
    summary = case((traces.c.complete, null()), else_=traces.c.judged).label("summary")
    query = select(*_KNOWN, traces.c.spans, summary).where(traces.c.run == run, traces.c.members.is_(None))
    found: dict[TraceKey, PackedTrace] = {}
    for some in in_parts(sorted({trace_id for _, trace_id in wanted})):
        for row in connection.execute(query.where(database(connection).of_ids(some))):
            if (key := (row.tenant, bytes(row.trace_id))) in wanted:
                found[key] = _kept(row)
    return found


def kept_heads(connection: Connection, numbers: Iterable[int]) -> Iterator[PackedTrace]:
    """The stored traces with these numbers, in no order, without spans, and with the journal position of their end.

    Those whose results are damaged, so that this is not known, are left out.
    """
    query = select(*_KNOWN, traces.c.judged.label("summary"), literal(b"").label("spans"))
    for some in in_parts(list(numbers)):
        for row in connection.execute(query.where(traces.c.number.in_(some))):
            try:
                last_position = unpack_summary(row.summary).last_position
            except Unreadable:
                continue
            kept = _kept(row)
            kept.trace.last_position = last_position
            yield kept


def _kept(row: Any) -> PackedTrace:
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
