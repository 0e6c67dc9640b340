"""The judge's lookups in the store: closed traces that late spans belong to, sessions that go on, and their turns."""

from collections.abc import Callable, Collection, Iterable, Mapping

from sqlalchemy import Engine

from tracegrade.assemble.closed_traces import ClosedTrace, TraceKey
from tracegrade.assemble.sessions import MAX_TRACES, KnownSession, SessionKey
from tracegrade.assemble.share import ALL, Share
from tracegrade.model.session import TURN
from tracegrade.model.trace_result import TraceSummary
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.store.judges import slowest_ns
from tracegrade.store.present_ids import PresentIds
from tracegrade.store.read import closed_traces, sessions_going_on, stored_session
from tracegrade.store.session_turns import SessionTurn, forget_turns, waiting_turns


class StoredTraces:
    """Reads of the judging thread, over connections of its own, so that they do not wait for writers."""

    def __init__(self, open_engine: Callable[[], Engine], heartbeat: Heartbeat, share: Share = ALL) -> None:
        """`open_engine` is called at the first read. Sessions that go on are those of `share`."""
        self._open_engine = open_engine
        self._heartbeat = heartbeat
        self._share = share
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
        with self._heartbeat.elsewhere():
            if not self._present.may_be([trace_id for _, trace_id in asked]):
                return {}
            with self._engine.connect() as connection:
                found = closed_traces(connection, asked)
        return {key: ClosedTrace.of(trace) for key, trace in found.items()}

    def session(self, key: SessionKey) -> KnownSession | None:
        """The session of this tenant and id, if the store holds it."""
        with self._heartbeat.elsewhere(), self._engine.connect() as connection:
            stored = stored_session(connection, *key)
        return _known(stored) if stored is not None else None

    def sessions_going_on(self) -> list[KnownSession]:
        """The sessions that had not ended when an earlier process stopped."""
        with self._engine.connect() as connection:
            going_on = sessions_going_on(connection)
        return [_known(stored) for stored in going_on if self._share.takes(stored.own_id)]

    def turns(self, of: int, shares: Collection[int], limit: int) -> list[SessionTurn]:
        """The turns of sessions in these shares; of PostgreSQL alone."""
        with self._heartbeat.elsewhere(), self._engine.connect() as connection:
            return waiting_turns(connection, of, shares, limit)

    def forget_turns(self, turns: Collection[SessionTurn]) -> None:
        """Delete turns whose sessions are judged and stored."""
        with self._heartbeat.elsewhere(), self._engine.begin() as connection:
            forget_turns(connection, turns)

    def judged_by_all_ns(self) -> int:
        """The store holds what came up to this time to any judge; 0 while that is not known."""
        with self._heartbeat.elsewhere(), self._engine.connect() as connection:
            return slowest_ns(connection) or 0

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
