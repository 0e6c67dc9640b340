"""Judges stored sessions again, from what the store or the journal has of their traces.

A session that was judged is judged again with the traces it had, as it closed. One that no rule judged has the traces
that name it; it has ended when it was quiet for ``session_quiet`` until now. A session of which one trace cannot be
judged is left out as a whole: with fewer turns, rules would say something else of it.

Memory: the spans of some thousand traces, compressed, and the ids of the traces of the sessions that are read from the
journal.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

from tracegrade.assemble.sessions import MAX_TRACES, NO_LONGER, KnownSession
from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.compare.progress import Progress
from tracegrade.compare.rejudging.journal_traces import JournalTraces
from tracegrade.compare.rejudging.traces import Rejudge
from tracegrade.compare.store.rejudging import (
    KeptSession,
    TraceKey,
    judged_sessions,
    kept_heads,
    kept_traces_of,
    sessions_not_judged,
)
from tracegrade.model.session import TURN
from tracegrade.pipeline.packed import LeftOut, PackedSession

T = TypeVar("T")

# Of so many traces at a time, the spans are in memory: those of the store, and those of the journal.
_TOGETHER = 256
_TOGETHER_IN_JOURNAL = 10_000


class RejudgeSessions(Rejudge[T]):
    """Judges the stored sessions of a run again."""

    def sessions(self, label: str, progress: Progress) -> Iterator[tuple[KeptSession, T]]:
        """Each session that is chosen, with what was shown of it.

        Args:
            label: of the progress bar.
            progress: shows how far it is.

        Raises:
            CannotTell: as `shown_by_workers`.
        """
        lacking: list[tuple[KeptSession, LeftOut]] = []
        judged = judged_sessions(self.connection, self.chosen)
        not_judged = sessions_not_judged(self.connection, self.chosen)
        with progress(label, None) as advance:
            for session, shown in self.shown(self._of_store(chain(judged, not_judged))):
                advance(1)
                if not isinstance(shown, LeftOut):
                    yield session, shown
                elif shown.chosen:
                    lacking.append((session, shown))
        problems: dict[tuple[str, str], Sequence[str]] = {
            _key(session): left_out.problems for session, left_out in lacking
        }
        yield from self.from_journal(len(lacking), problems, _key, partial(self._of_journal, lacking, progress))

    def _of_store(self, sessions: Iterable[KeptSession]) -> Iterator[tuple[KeptSession, PackedSession]]:
        for some in _in_parts(sessions, _TOGETHER):
            found = self._traces_of(some)
            for session in some:
                yield session, self._packed(session, found)

    def _traces_of(self, sessions: Iterable[KeptSession]) -> dict[TraceKey, PackedTrace]:
        keys = [(session.tenant, trace_id) for session in sessions for trace_id in session.members]
        found = kept_traces_of(self.connection, self.chosen.run, keys)
        return {key: kept._replace(decisions="") for key, kept in found.items()}

    def _packed(self, session: KeptSession, found: Mapping[TraceKey, PackedTrace]) -> PackedSession:
        """The session with those of its traces that were found."""
        settings = self.by.settings
        members, cut, reason = session.members, session.cut_by == MAX_TRACES, session.close_reason
        if not session.judged:
            cut = len(members) > settings.max_traces_per_session
            members = dict(list(members.items())[: settings.max_traces_per_session])
            quiet = session.closed_ns + round(settings.session_quiet * 1e9) <= time.time_ns()
            reason = "quiet" if quiet else TURN
        # Those of no revision were not found when the session was judged, either.
        needed = [trace_id for trace_id, revision in members.items() if revision and trace_id != NO_LONGER]
        traces = [found[key] for trace_id in needed if (key := (session.tenant, trace_id)) in found]
        gone = [trace_id for trace_id in needed if (session.tenant, trace_id) not in found]
        known = KnownSession(session.tenant, session.id, members, session.closed_ns, cut)
        return PackedSession(session.number, known, reason, traces, gone, settings.max_calls_per_session)

    def _of_journal(
        self, lacking: Sequence[tuple[KeptSession, LeftOut]], progress: Progress, journal: JournalTraces
    ) -> Iterator[tuple[KeptSession, PackedSession]]:
        """The sessions with what the journal still holds of what they lack."""
        lacks = {_key(session): left_out.lacking for session, left_out in lacking}
        for some in _in_parts((session for session, _ in lacking), _TOGETHER_IN_JOURNAL):
            found = self._traces_of(some)
            keys = {(one.tenant, trace_id) for one in some for trace_id in lacks[_key(one)]}
            numbers = {found[key].number: key for key in keys if key in found}
            wanted = list(kept_heads(self.connection, numbers))
            with progress("journal read: bytes", journal.bytes_of(wanted)) as advance:
                found |= {numbers[read.number]: read for read in journal.read(wanted, advance)}
            for session in some:
                yield session, self._packed(session, found)


def _key(session: KeptSession) -> tuple[str, str]:
    return session.tenant, session.id


def _in_parts(sessions: Iterable[KeptSession], traces: int) -> Iterator[list[KeptSession]]:
    """The sessions in their order, with about so many traces at a time."""
    some: list[KeptSession] = []
    members = 0
    for session in sessions:
        some.append(session)
        members += len(session.members)
        if members >= traces:
            yield some
            some, members = [], 0
    if some:
        yield some
