"""Which traces make up a session, and when it has ended. Time is an argument, as for traces.

A session is judged each time one of its traces closes, with the traces so far, and once more when it ends: it was quiet
for ``session_quiet``, a span with the ``session_end_attribute`` came, or the input ended. A trace that closes later
makes a further revision, and the session is open again. A session has the ids and revisions of its traces; their spans
are held as closed traces. Sessions that go on, and those that no store is known to hold yet, are in memory; others are
looked up.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

from tracegrade.assemble.settings import TracesSettings
from tracegrade.model.session import session_revision
from tracegrade.model.trace import CloseReason, TraceKey

MAX_TRACES, MAX_CALLS = "max_traces_per_session", "max_calls_per_session"
"""The bounds that may cut a session, by their settings."""

SessionKey = tuple[str, str]  # tenant, conversation id

NO_LONGER = b""
"""Stands in a session's members for revisions that count no more: without them its own revision would not grow."""


class ClosedTurn(Protocol):
    """The part of a closed `Trace` that its session keeps."""

    @property
    def trace_id(self) -> bytes:
        """Its id."""
        ...

    @property
    def revision(self) -> int:
        """The one in which it closed."""
        ...

    @property
    def closed_ns(self) -> int:
        """When it closed, ns since 1970 UTC."""
        ...


@dataclass(slots=True)
class KnownSession:
    """A session: its traces and their revisions, when the last one closed, and which revision was judged.

    The revision of a trace is 0 when the trace itself is not found. ``cut`` says that there were more traces than the
    bound. ``revision`` is the one judged last, None before that; ``ended`` says that it was judged as ended.
    """

    tenant: str
    id: str
    members: dict[bytes, int]
    closed_ns: int
    cut: bool = False
    revision: int | None = None
    ended: bool = False
    token: int = 0  # of its newest result, as in `ClosedTraces.add`

    @property
    def key(self) -> SessionKey:
        """Identifies the session."""
        return self.tenant, self.id

    @property
    def traces(self) -> list[TraceKey]:
        """The keys of its traces."""
        return [(self.tenant, trace_id) for trace_id in self.members if trace_id != NO_LONGER]

    def found(self, revisions: Mapping[TraceKey, int]) -> None:
        """Note which revision each trace has now: `revisions` has those that are still stored.

        After a kill, or because of retention, it may be lower, or the trace may be missing.
        """
        for key in self.traces:
            now = revisions.get(key, 0)
            lost = self.members[key[1]] - now
            self.members[key[1]] = now
            if lost > 0:
                self._count_no_longer(lost)

    def add(self, trace: ClosedTurn, max_traces: int) -> None:
        """Note that `trace` closed."""
        self.closed_ns = max(self.closed_ns, trace.closed_ns)
        if trace.trace_id in self.members or len(self.traces) < max_traces:
            self.members[trace.trace_id] = trace.revision
        elif not self.cut:
            self.cut = True
            self._count_no_longer(1)

    def _count_no_longer(self, revisions: int) -> None:
        self.members[NO_LONGER] = self.members.get(NO_LONGER, 0) + revisions


LookupSession = Callable[[SessionKey], KnownSession | None]


def none_stored(key: SessionKey) -> KnownSession | None:
    """The lookup of a run without a store."""
    return None


class Sessions:
    """All sessions that go on, and the queue of the times when they end."""

    def __init__(self, settings: TracesSettings, lookup: LookupSession = none_stored) -> None:
        self._lookup = lookup
        self._quiet_ns = round(settings.session_quiet * 1e9)
        self._max_traces = settings.max_traces_per_session
        self._max_open = settings.max_live_traces
        self._known: dict[SessionKey, KnownSession] = {}
        self._open: dict[SessionKey, KnownSession] = {}
        self._unstored: deque[tuple[int, SessionKey]] = deque()
        self._queue: list[tuple[int, SessionKey]] = []

    def resume(self, going_on: Iterable[KnownSession]) -> None:
        """Go on with sessions that were open when an earlier process stopped."""
        for session in going_on:
            self._known[session.key] = session
            self._queue_up(session)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, key: SessionKey, *traces: ClosedTurn) -> KnownSession:
        """Add `traces`, which have just closed, to their session, which goes on. Returns the session."""
        session = self._known.get(key) or self._lookup(key) or KnownSession(*key, {}, 0)
        for trace in traces:
            session.add(trace, self._max_traces)
        return session

    def judged(self, session: KnownSession, *, ended: bool, token: int) -> None:
        """Note that `session` was judged with the traces so far; `release` will name this `token` (growing)."""
        session.revision, session.ended, session.token = session_revision(session.members, ended=ended), ended, token
        self._known[session.key] = session
        self._unstored.append((token, session.key))
        if ended:
            self._open.pop(session.key, None)
        else:
            self._queue_up(session)

    def _queue_up(self, session: KnownSession) -> None:
        if session.key not in self._open:
            heappush(self._queue, (session.closed_ns + self._quiet_ns, session.key))
        self._open[session.key] = session

    def due(self, now_ns: int) -> list[tuple[KnownSession, CloseReason]]:
        """The sessions that ended by `now_ns`, in order of that time, each with its close reason."""
        ended: list[tuple[KnownSession, CloseReason]] = []
        while self._queue and (self._queue[0][0] <= now_ns or len(self._open) > self._max_open):
            _, key = heappop(self._queue)
            session = self._open.get(key)
            if session is None:
                continue
            due_ns = session.closed_ns + self._quiet_ns
            if due_ns > now_ns and len(self._open) <= self._max_open:
                heappush(self._queue, (due_ns, key))  # it went on meanwhile
                continue
            del self._open[key]
            ended.append((session, "quiet" if due_ns <= now_ns else "memory"))
        return ended

    def end(self) -> list[tuple[KnownSession, CloseReason]]:
        """End all sessions that go on, because the input has ended. Returns them."""
        rest = sorted(self._open.values(), key=lambda session: (session.closed_ns, session.key))
        self._open.clear()
        self._queue.clear()
        return [(session, "end_of_input") for session in rest]

    def release(self, up_to_token: int) -> None:
        """Let go of ended sessions whose results have a token up to `up_to_token`: a store holds them now."""
        while self._unstored and self._unstored[0][0] <= up_to_token:
            token, key = self._unstored.popleft()
            session = self._known.get(key)
            if session is not None and session.token == token and session.ended:
                del self._known[key]
