"""Stored sessions, with what judging them again needs: which traces they have, and the decisions on them so far.

A session that was judged has a row, which names its traces. One that no rule judged has none: its traces name it.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import orjson
from sqlalchemy import Connection, bindparam, select

from tracegrade.store.arrivals import number_range
from tracegrade.store.result_filter import ResultFilter, of_traces
from tracegrade.store.run_numbers import numbers_of
from tracegrade.store.schema import LIVE, traces

# So many sessions a query.
_TOGETHER = 256
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
    bounds = numbers_of(connection, result_filter)
    if bounds is None:
        return
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
    ).where(*of_traces(result_filter), known.members.is_not(None), known.number.between(bounds[0], bindparam("last")))
    query = query.order_by(known.number.desc()).limit(_TOGETHER)
    last = bounds[1]
    while rows := connection.execute(query, {"last": last}).all():
        for number, trace_id, tenant, name, revision, members, *rest in rows:
            found = {bytes.fromhex(member): of for member, of in json.loads(members).items()}
            yield KeptSession(number, True, bytes(trace_id), tenant, name, revision, found, *rest)
        last = rows[-1].number - 1


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
