"""Several processes on one PostgreSQL: how far each judge is, which process leads, and deletions that all carry out.

Alerts wait for the slowest judge: while one is behind, its share of what came is not stored, which is not the same as
that nothing came. What only one process may do at a time, such as checking alerts, the leader does. With SQLite, one
process stores everything and leads, and no rows are written.

Where several judges read from Kafka, the traces of one session are with several of them. The process that stores a
trace of a session notes a turn here, in the same transaction, and the judge that has the session reads it: so it finds
in the store every trace of its turns. It deletes a turn when the session is stored; until then, after a kill or when
another judge gets the session, it is judged again, which gives the same ids.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.exc import SQLAlchemyError

from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import TraceResult, TraceSummary
from tracegrade.store.database import HeldLock, Key, Lock
from tracegrade.store.read import stored_summary
from tracegrade.store.registry import database
from tracegrade.store.schema import session_turns, shared_deletions

_NOTE_EVERY_S = 5.0
# One that was not heard of for so long judges no more: it was stopped, or another one has its share.
_HEARD_WITHIN_S = 60

logger = logging.getLogger(__name__)


class Judges:
    """One judge among those that write to a store."""

    def __init__(self, engine: Engine, name: str, stored_to_ns: Callable[[], int]) -> None:
        """Prepare.

        Args:
            engine: the store, open for writing.
            name: this judge's, which no other one on the store has.
            stored_to_ns: the store holds every result of what came to this judge up to this time, ns since 1970 UTC; 0
                until that is known.
        """
        self._engine = engine
        self._name = name
        self._stored_to_ns = stored_to_ns
        self._asking = threading.Lock()  # the alerts' thread asks, too
        self._alone = database(engine).is_file

    async def run(self, stop: asyncio.Event) -> None:
        """Tell the others again and again, until `stop` is set."""
        while not stop.is_set():
            await asyncio.to_thread(self.note)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _NOTE_EVERY_S)

    def note(self) -> None:
        """Tell the others how far this one is."""
        if self._alone or not (own_ns := self._own_ns()):
            return
        try:
            with self._engine.begin() as connection:
                connection.execute(
                    text(
                        "INSERT INTO judges (name, stored_to_ns, seen) VALUES (:name, :stored_to_ns, now()) "
                        "ON CONFLICT (name) DO UPDATE SET stored_to_ns = excluded.stored_to_ns, seen = excluded.seen"
                    ),
                    {"name": self._name, "stored_to_ns": own_ns},
                )
                connection.execute(text("DELETE FROM judges WHERE seen < now() - interval '1 day'"))
        except SQLAlchemyError as error:
            logger.debug("the store does not take how far this judge is: %s", error)

    def stored_to_ns(self) -> int:
        """The store holds every result of what came to any judge up to this time.

        Raises:
            SQLAlchemyError: the database refused.
        """
        own_ns = self._own_ns()
        if self._alone:
            return own_ns
        with self._engine.connect() as connection:
            others_ns = slowest_ns(connection, but=self._name)
        return own_ns if others_ns is None else min(own_ns, others_ns)

    def _own_ns(self) -> int:
        with self._asking:
            return self._stored_to_ns()


def slowest_ns(connection: Connection, but: str = "") -> int | None:
    """The store, on PostgreSQL, holds what came up to this time to any judge `but` the one of this name.

    None when no other one was heard of lately.
    """
    heard = f"seen > now() - interval '{_HEARD_WITHIN_S} seconds' AND name <> :but"
    found: int | None = connection.execute(
        text(f"SELECT min(stored_to_ns) FROM judges WHERE {heard}"), {"but": but}
    ).scalar()
    return found


LOOK_EVERY_S = 2.0
# A holder that could not look for so long leads no more. The server keeps its lock for longer, even if nothing is heard
# of it any more: first the one stops, then another one begins.
_TRUSTED_S = 6.0


class Leader:
    """Tries to lead for this process: `run`, or `look` now and then.

    The leader holds `Lock.LEADING`, which goes with its connection: another process takes over when the holder ends, is
    killed, or loses the server; within some seconds also when its whole machine goes.
    """

    def __init__(self, engine: Engine) -> None:
        """Prepare; `engine` is the store, open for writing."""
        self._engine = engine
        self._alone = database(engine).is_file
        self._lock: HeldLock | None = None
        self._held_at_s: float | None = None

    @property
    def leads(self) -> bool:
        """Whether this process is the one, now. Ask again before each piece of work; any thread may."""
        held_at_s = self._held_at_s
        return self._alone or (held_at_s is not None and time.monotonic() - held_at_s < _TRUSTED_S)

    async def run(self, stop: asyncio.Event) -> None:
        """Try to lead, and look whether it still does, until `stop` is set; then another process may lead."""
        while not stop.is_set():
            await asyncio.to_thread(self.poll)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_EVERY_S)
        await asyncio.to_thread(self.resign)

    def poll(self) -> None:
        """Take the lock if it is free; if this process has it, look whether its connection is still there."""
        if self._alone:
            return
        begun_s, led = time.monotonic(), self.leads
        try:
            if self._lock is None:
                self._lock = database(self._engine).take(self._engine, Lock.LEADING)
            else:
                self._lock.check()
        except SQLAlchemyError as error:
            logger.debug("the lock of the leader cannot be asked for: %s", error)
            self._release()
        held = self._lock is not None
        self._held_at_s = begun_s if held else None
        if held != led:
            says = "now does what only one process on the store may do" if held else "no longer does"
            logger.info("this process %s: alerts, retention", says)

    def resign(self) -> None:
        """Let another process lead."""
        self._held_at_s = None
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            with suppress(SQLAlchemyError):
                lock.release()


_ID_BYTES = 16
_INSERT = (
    "INSERT INTO shared_deletions (id, requested_ns, tenant, trace_ids) "
    "VALUES (:id, :requested_ns, :tenant, :trace_ids) ON CONFLICT DO NOTHING"
)


class SharedDeletion(NamedTuple):
    """One deletion: the traces `trace_ids` of `tenant`, None for all tenants; asked for at ``requested_ns``.

    Where Kafka is the journal, what was received is in no data folder, and the traces of a deletion may be with any
    judge: open, or judged and not stored yet. So all judges read it from the store.
    """

    id: str
    requested_ns: int
    tenant: str | None
    trace_ids: frozenset[bytes]


def share(connection: Connection, deletions: Collection[SharedDeletion], *, forget_before_ns: int) -> None:
    """Note `deletions`, where they are not noted yet, and forget what was asked for before a time."""
    connection.execute(shared_deletions.delete().where(shared_deletions.c.requested_ns < forget_before_ns))
    rows = [{**each._asdict(), "trace_ids": b"".join(sorted(each.trace_ids))} for each in deletions if each.trace_ids]
    if rows:
        connection.execute(text(_INSERT), rows)


def shared_ids(connection: Connection) -> set[str]:
    """The ids of all that are noted."""
    return set(connection.execute(select(shared_deletions.c.id)).scalars())


def shared(connection: Connection, ids: Collection[str]) -> list[SharedDeletion]:
    """Those of these ids that are noted, the oldest first."""
    query = select(shared_deletions).where(shared_deletions.c.id.in_(ids)).order_by(shared_deletions.c.requested_ns)
    found = connection.execute(query).mappings()
    return [
        SharedDeletion(row["id"], row["requested_ns"], row["tenant"], _ids(bytes(row["trace_ids"]))) for row in found
    ]


def _ids(written: bytes) -> frozenset[bytes]:
    return frozenset(written[at : at + _ID_BYTES] for at in range(0, len(written), _ID_BYTES))


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
