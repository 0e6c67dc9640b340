"""The judge's lookups in the store: closed traces that late spans belong to, sessions that go on, and their turns."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from sqlalchemy import Connection, Engine

from tracegrade.assemble.closed_traces import ClosedTrace
from tracegrade.assemble.sessions import MAX_TRACES, KnownSession, SessionKey
from tracegrade.assemble.share import ALL, Share
from tracegrade.model.session import TURN
from tracegrade.model.trace import Trace, TraceKey
from tracegrade.model.trace_result import TraceSummary
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.store.errors import STORE_ERRORS, cause_of, is_away
from tracegrade.store.read import PresentIds, closed_traces, sessions_going_on, stored_session
from tracegrade.store.several_processes import SessionTurn, forget_turns, slowest_ns, waiting_turns
from tracegrade.telemetry.conditions import Conditions

_AGAIN_AFTER_S = 1.0
_WHERE = "reading"

Read = TypeVar("Read")


def _no_wait(seconds: float) -> bool:
    return True


class StoredTraces:
    """Reads of the judging thread, over connections of its own, so that they do not wait for writers."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        heartbeat: Heartbeat,
        share: Share = ALL,
        *,
        conditions: Conditions | None = None,
        wait: Callable[[float], bool] = _no_wait,
    ) -> None:
        """Prepare.

        Args:
            open_engine: called at the first read.
            heartbeat: beats while the store refuses, too.
            share: sessions that go on are those of this one.
            conditions: where ``store_unavailable`` is said meanwhile.
            wait: waits so many seconds; True when nothing more is to be read: what the store raised is raised then.
        """
        self._open_engine = open_engine
        self._heartbeat = heartbeat
        self._share = share
        self._conditions = conditions or Conditions()
        self._wait = wait
        self._opened: Engine | None = None
        self._present = PresentIds(lambda: self._engine)

    @property
    def _engine(self) -> Engine:
        if self._opened is None:
            self._opened = self._open_engine()
        return self._opened

    def closed_traces(self, keys: Iterable[TraceKey]) -> Mapping[TraceKey, ClosedTrace]:
        """The traces of `keys` that the store holds."""
        asked = list(keys)

        def read() -> Mapping[TraceKey, Trace]:
            if not self._present.may_be([trace_id for _, trace_id in asked]):
                return {}
            with self._engine.connect() as connection:
                return closed_traces(connection, asked)

        return {key: ClosedTrace.of(trace) for key, trace in self._patiently(read).items()}

    def session(self, key: SessionKey) -> KnownSession | None:
        """The session of this tenant and id, if the store holds it."""
        stored = self._read_patiently(lambda connection: stored_session(connection, *key))
        return _known(stored) if stored is not None else None

    def sessions_going_on(self) -> list[KnownSession]:
        """The sessions that had not ended when an earlier process stopped."""
        going_on = self._read_patiently(sessions_going_on)
        return [_known(stored) for stored in going_on if self._share.takes(stored.own_id)]

    def turns(self, of: int, shares: Collection[int], limit: int) -> list[SessionTurn]:
        """The turns of sessions in these shares; of PostgreSQL alone."""
        return self._read_patiently(lambda connection: waiting_turns(connection, of, shares, limit))

    def forget_turns(self, turns: Collection[SessionTurn]) -> None:
        """Delete turns whose sessions are judged and stored."""

        def forget() -> None:
            with self._engine.begin() as connection:
                forget_turns(connection, turns)

        self._patiently(forget)

    def judged_by_all_ns(self) -> int:
        """The store holds what came up to this time to any judge; 0 while that is not known."""
        return self._read_patiently(slowest_ns) or 0

    def _read_patiently(self, read: Callable[[Connection], Read]) -> Read:
        def attempt() -> Read:
            with self._engine.connect() as connection:
                return read(connection)

        return self._patiently(attempt)

    def _patiently(self, attempt: Callable[[], Read]) -> Read:
        """The result of `attempt`, which is made again while the store is locked or away.

        A store that is damaged, or has lost its tables, is not waited for: the next start opens it anew.
        """
        with self._heartbeat.elsewhere():
            while True:
                try:
                    found = attempt()
                except STORE_ERRORS as error:
                    if not is_away(error):
                        raise
                    self._conditions.begin("store_unavailable", f"judging waits: {cause_of(error)}", _WHERE)
                    self._heartbeat.still_alive()
                    if self._wait(_AGAIN_AFTER_S):
                        raise
                else:
                    self._conditions.end("store_unavailable", _WHERE)
                    return found

    def close(self) -> None:
        """Close the connections."""
        self._present.close()
        if self._opened is not None:
            self._opened.dispose()


def _known(stored: TraceSummary) -> KnownSession:
    cut, ended = stored.cut_by == MAX_TRACES, stored.close_reason != TURN
    return KnownSession(
        stored.tenant, stored.session or "", stored.members or {}, stored.closed_ns, cut, stored.revision, ended
    )
