"""Stored traces and sessions as a whole, by their ids, and what assembly asks about late spans.

`tracegrade.store.heads` lists traces and sessions, `tracegrade.store.results` results.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, func, select

from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.session import TURN, session_trace_id
from tracegrade.model.tool_call import ToolCall
from tracegrade.store.json_text import storable
from tracegrade.store.judged import unpack_judged
from tracegrade.store.parts import in_parts
from tracegrade.store.schema import traces


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """Everything stored of one trace: the record as it was delivered, and its kept spans, packed.

    Or of one session, whose spans are with its traces.
    """

    trace: dict[str, Any]
    tool_calls: list[ToolCall]
    decisions: list[Decision]
    spans: bytes

    @property
    def evaluations(self) -> list[Evaluation]:
        """The evaluations of all decisions, in their order."""
        return [evaluation for decision in self.decisions for evaluation in decision.evaluations]

    @property
    def members(self) -> dict[bytes, int] | None:
        """Of a session its traces by id, with their revisions; None for a trace."""
        members = self.trace.get("members")
        return None if members is None else _members(members)

    @property
    def sessions(self) -> list[str]:
        """Of a trace the sessions that it is part of."""
        found = [run["session"] or self.trace["session"] for run in self.trace.get("runs", ())]
        return [name for name in dict.fromkeys(found) if name]


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What assembly needs of a session: its traces by id with their revisions, and how it was judged last."""

    tenant: str
    id: str
    members: dict[bytes, int]
    closed_ns: int
    cut_by: str | None
    revision: int
    close_reason: str


@dataclass(frozen=True, slots=True)
class ClosedTrace:
    """What assembly needs of a closed trace when a late span names it; ``spans`` are packed."""

    closed_ns: int
    first_received_ns: int
    last_received_ns: int
    first_position: int
    revision: int
    cut_by: str | None
    rule_set_hash: str
    spans: bytes


def newest_number(connection: Connection) -> int:
    """The number of the trace that was stored last, which grows with every closing; 0 in an empty store."""
    found: int = connection.execute(select(func.coalesce(func.max(traces.c.number), 0))).scalar_one()
    return found


_MAX_TURNS_SEARCHED = 20_000
_MAX_TURN_IDS = 500


def stored_traces(connection: Connection, trace_id: bytes, *, run: str = "live") -> list[StoredTrace]:
    """The trace, or session, of that id with all its results: one for each tenant, [] when it is not stored."""
    query = (
        select(traces.c.judged, traces.c.spans)
        .where(traces.c.trace_id == trace_id, traces.c.run == run)
        .order_by(traces.c.tenant)
    )
    found = []
    for judged, spans in connection.execute(query):
        found.append(StoredTrace(*unpack_judged(judged), bytes(spans)))
    return found


def sessions_of(connection: Connection, stored: StoredTrace) -> list[StoredTrace]:
    """The sessions that a stored trace is part of, as far as they were judged."""
    head = stored.trace
    found = []
    for name in stored.sessions:
        own = session_trace_id(head["tenant"], name)
        same_id = stored_traces(connection, own, run=head["run"])
        found += [session for session in same_id if session.trace["tenant"] == head["tenant"]]
    return found


def traces_of(connection: Connection, stored: StoredTrace) -> list[StoredTrace]:
    """A stored trace itself; of a session its traces, as far as they are stored."""
    head, members = stored.trace, stored.members
    if members is None:
        return [stored]
    found = [trace for trace_id in members for trace in stored_traces(connection, trace_id, run=head["run"])]
    return [trace for trace in found if trace.trace["tenant"] == head["tenant"] and trace.members is None]


def earlier_turns(connection: Connection, stored: StoredTrace, limit: int) -> list[StoredTrace]:
    """The traces of a stored trace's sessions that began before it, the latest first, at most `limit`.

    Those of sessions that were judged; of the rest as far as they are among the latest `_MAX_TURNS_SEARCHED` traces.
    """
    head = stored.trace
    ids = {trace_id for session in sessions_of(connection, stored) for trace_id in session.members or ()}
    numbered = select(traces.c.number).where(
        traces.c.trace_id == bytes.fromhex(head["trace_id"]),
        traces.c.tenant == head["tenant"],
        traces.c.run == head["run"],
    )
    number = connection.execute(numbered).scalar()
    if number is not None and stored.sessions:
        near = select(traces.c.trace_id).where(
            traces.c.number.between(number - _MAX_TURNS_SEARCHED, number - 1),
            traces.c.session.in_([storable(name) for name in stored.sessions]),
            traces.c.run == head["run"],
            traces.c.tenant == head["tenant"],
            traces.c.members.is_(None),
        )
        ids |= {bytes(found) for found in connection.execute(near).scalars()}
    ids.discard(bytes.fromhex(head["trace_id"]))
    found = select(traces.c.judged, traces.c.spans).where(
        traces.c.trace_id.in_(sorted(ids)[:_MAX_TURN_IDS]),
        traces.c.run == head["run"],
        traces.c.tenant == head["tenant"],
        traces.c.start_ns < head["start_ns"],
        traces.c.members.is_(None),
    )
    rows = connection.execute(found.order_by(traces.c.start_ns.desc()).limit(limit))
    return [StoredTrace(*unpack_judged(judged), bytes(spans)) for judged, spans in rows]


def stored_session(connection: Connection, tenant: str, session_id: str) -> StoredSession | None:
    """The session of that id, if it was judged live."""
    own = session_trace_id(tenant, session_id)
    row = connection.execute(_SESSIONS.where(traces.c.trace_id == own, traces.c.tenant == tenant)).first()
    return _session(row) if row is not None else None


def sessions_going_on(connection: Connection) -> list[StoredSession]:
    """The sessions that have not ended, in the order in which their last traces closed."""
    rows = connection.execute(_SESSIONS.where(traces.c.close_reason == TURN).order_by(traces.c.closed_ns))
    return [_session(row) for row in rows]


_SESSIONS = select(
    *(traces.c[name] for name in ("tenant", "judged", "members", "closed_ns", "cut_by", "revision", "close_reason"))
).where(traces.c.run == "live")


def _session(row: Any) -> StoredSession:
    head, _, _ = unpack_judged(row.judged)  # the id as it came: the column holds what the database can
    members = _members(orjson.loads(row.members))
    return StoredSession(
        row.tenant, head["session"], members, row.closed_ns, row.cut_by, row.revision, row.close_reason
    )


def _members(members: Mapping[str, int]) -> dict[bytes, int]:
    return {bytes.fromhex(trace_id): revision for trace_id, revision in members.items()}


def newest_traces(connection: Connection, limit: int, *, sessions: bool = False) -> Iterator[StoredTrace]:
    """The newest traces, or sessions, judged live, newest first, at most `limit`; a few in memory at a time."""
    is_wanted = traces.c.members.is_not(None) if sessions else traces.c.members.is_(None)
    query = select(traces.c.judged, traces.c.spans).where(traces.c.run == "live", is_wanted)
    query = query.order_by(traces.c.number.desc())
    for judged, spans in connection.execute(query.limit(limit).execution_options(yield_per=64)):
        yield StoredTrace(*unpack_judged(judged), bytes(spans))


def closed_traces(connection: Connection, keys: Sequence[tuple[str, bytes]]) -> dict[tuple[str, bytes], ClosedTrace]:
    """Those of `keys` (tenant, trace id) whose trace was judged live, in one query for each 500 of them."""
    found: dict[tuple[str, bytes], ClosedTrace] = {}
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    for some in in_parts(keys):
        # Through the driver: assembly asks this for every new trace, and Core takes 2 µs an id to write an IN list.
        marks = ", ".join([mark] * len(some))
        rows = connection.exec_driver_sql(
            "SELECT tenant, trace_id, closed_ns, first_received_ns, last_received_ns, first_position, revision, "
            f"cut_by, rule_set_hash, spans FROM traces WHERE trace_id IN ({marks}) AND run = 'live'",
            tuple(trace_id for _, trace_id in some),
        ).all()
        wanted = set(some) if rows else set()
        for tenant, trace_id, closed, first, last, position, revision, cut_by, rule_set_hash, spans in rows:
            if (key := (tenant, bytes(trace_id))) in wanted:
                found[key] = ClosedTrace(closed, first, last, position, revision, cut_by, rule_set_hash, bytes(spans))
    return found
