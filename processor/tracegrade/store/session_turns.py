"""PostgreSQL's table of turns: traces of sessions that are stored, and whose sessions are not judged with them yet.

Where several judges read from Kafka, the traces of one session are with several of them. Whoever stores a trace of a
session notes it here, in the same transaction, and the judge that has the session reads it: so it finds in the store
every trace that it was told of. It deletes the turn when the session is stored; until then, after a kill or when
another judge gets the session, it is judged again, which gives the same ids.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple
from zlib import crc32

from sqlalchemy import Connection

from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import TraceResult, TraceSummary
from tracegrade.store.database import Key
from tracegrade.store.read import stored_summary
from tracegrade.store.registry import database
from tracegrade.store.schema import session_turns

HasTurns = Callable[[TraceSummary], bool]
"""Whether sessions that this trace is part of may have to be judged."""

_KEY = "tenant, session, trace_id"


class SessionTurn(NamedTuple):
    """One trace of one session, in the revision that is stored; ``closed_ns`` is when that closed."""

    tenant: str
    session: str
    trace_id: bytes
    revision: int
    closed_ns: int


def turns_of(
    connection: Connection, newest: Mapping[Key, TraceResult], has_turns: HasTurns
) -> dict[Key, list[SessionTurn]]:
    """The turns of traces that are about to be stored, by their keys; the store has their lower revisions still.

    A session that a trace was part of in its last revision has a turn too: it is to be judged without the trace.
    """
    found = {}
    for key, result in newest.items():
        trace = result.trace
        if trace.members is not None or not has_turns(trace):
            continue
        names = list(trace.sessions)
        if trace.supersedes is not None:
            before = stored_summary(connection, trace.tenant, trace.own_id)
            names += before.sessions if before is not None else []
        found[key] = [
            SessionTurn(trace.tenant, name, trace.own_id, trace.revision, trace.closed_ns)
            for name in dict.fromkeys(names)
        ]
    return found


def note_turns(connection: Connection, turns: Iterable[SessionTurn]) -> None:
    """Note turns of traces that this transaction stores."""
    rows = [(*turn, _place(turn)) for turn in sorted(turns)]
    changes = "revision = excluded.revision, closed_ns = excluded.closed_ns"
    database(connection).insert_or_change(connection, session_turns, rows, changes)


def waiting_turns(connection: Connection, of: int, shares: Collection[int], limit: int) -> list[SessionTurn]:
    """The turns of sessions in these `shares` of `of`, as `Share` divides them by their own ids; the oldest first."""
    rows = connection.exec_driver_sql(
        f"SELECT {_KEY}, revision, closed_ns FROM session_turns WHERE place %% %s = ANY(%s) "
        f"ORDER BY closed_ns, {_KEY} LIMIT %s",
        (of, list(shares), limit),
    )
    return [SessionTurn(tenant, name, bytes(trace_id), *rest) for tenant, name, trace_id, *rest in rows]


def forget_turns(connection: Connection, turns: Iterable[SessionTurn]) -> None:
    """Delete turns whose sessions are judged and stored.

    One that was noted anew since, with a higher revision, stays; so does one that is being noted, for the next time.
    """
    judged = [turn[:4] for turn in turns]
    if judged:
        connection.exec_driver_sql(
            f"DELETE FROM session_turns AS turns USING (SELECT {_KEY} FROM session_turns "
            f"JOIN unnest(%s::text[], %s::text[], %s::bytea[], %s::int4[]) AS judged ({_KEY}, of_revision) "
            f"USING ({_KEY}) WHERE revision <= of_revision FOR UPDATE OF session_turns SKIP LOCKED) AS gone "
            "WHERE (turns.tenant, turns.session, turns.trace_id) = (gone.tenant, gone.session, gone.trace_id)",
            tuple(map(list, zip(*judged, strict=True))),
        )


def _place(turn: SessionTurn) -> int:
    return crc32(session_trace_id(turn.tenant, turn.session))
