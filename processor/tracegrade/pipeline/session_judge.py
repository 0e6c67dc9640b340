"""Judges sessions as their traces close, from the extractions made when each trace closed.

Example: a conversation of three turns, each of them a trace of one span::

    trace A closes   A is extracted   session of A judged, so far                (revision 2)
    trace B closes   B is extracted   session of A and B judged, so far          (revision 4)
    trace C closes   C is extracted   session of A, B and C judged               (revision 6)
    quiet            nothing is       the same session judged, as it ended       (revision 7)

A turn extracts one trace; extractions of earlier ones are remembered (`ExtractedTraces`), and only joined, matched and
evaluated again. A late span of B closes B again: only B is extracted again, and the session has a higher revision.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.assemble.sessions import MAX_CALLS, MAX_TRACES, KnownSession, SessionKey, Sessions, none_stored
from tracegrade.assemble.settings import TracesSettings
from tracegrade.assemble.share import Share
from tracegrade.extract.session import joined
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import TURN, Session, session_revision, session_trace_id
from tracegrade.model.trace import CloseReason, Trace
from tracegrade.pipeline.extracted_traces import ExtractedTrace, ExtractedTraces
from tracegrade.pipeline.judged import JudgedSession, ResultNumbers
from tracegrade.pipeline.rule_sets import RuleSets
from tracegrade.pipeline.watched_judge import WatchedJudge


class Turn(NamedTuple):
    """A trace that was closed and stored, as its sessions know it; ``sessions`` are their ids."""

    tenant: str
    trace_id: bytes
    revision: int
    closed_ns: int
    sessions: Sequence[str]


class SessionJudge:
    """Everything between a closed trace and the results of its sessions; its only clock is the records' time."""

    def __init__(
        self,
        settings: TracesSettings,
        closed: ClosedTraces,
        extracted: ExtractedTraces,
        rule_sets: RuleSets,
        judge: WatchedJudge,
        numbers: ResultNumbers,
    ) -> None:
        """Start without sessions.

        Args:
            settings: the bounds of a session, and when it ends.
            closed: where every closed trace is put and found, and a session that only a store holds.
            extracted: their extractions.
            rule_sets: each session is judged by that of its first trace.
            judge: judges.
            numbers: counts results.
        """
        self._max_calls = settings.max_calls_per_session
        self._closed = closed
        self._extracted = extracted
        self._sessions = Sessions(settings, closed.lookup_session or none_stored)
        self._rule_sets = rule_sets
        self._judge = judge
        self._numbers = numbers

    def resume(self, going_on: Iterable[KnownSession]) -> None:
        """Go on with sessions that were open when an earlier process stopped."""
        self._sessions.resume(going_on)

    def release(self, up_to_sequence: int) -> None:
        """A store holds all results up to this one."""
        self._sessions.release(up_to_sequence)

    def trace_closed(self, trace: Trace, extraction: Extraction) -> Iterator[JudgedSession]:
        """Judge the sessions of a trace that just closed.

        They come before the trace: after a kill between the two, the trace is read again and closes again.
        """
        self._judge.working(trace.trace_id)
        key = (trace.tenant, trace.trace_id)
        closed = ClosedTrace.of(trace)
        names: list[str] = []
        if trace.supersedes is not None and (before := self._closed.find([key]).get(key)) is not None:
            names += self._extracted.of(key, before).parts
            closed.in_session = before.in_session
        parts = self._extracted.add(key, extraction).parts
        names = [*parts, *(name for name in names if name not in parts)]
        closed.in_session |= bool(names)
        self._closed.add(key, closed, self._numbers.last + len(names) + 1)
        for name in names:
            session = self._sessions.add((trace.tenant, name), trace)
            yield from self._judged(session, TURN)

    def trace_stored(self, turn: Turn, share: Share) -> Iterator[JudgedSession]:
        """Judge the sessions of `share` that a trace is part of, or was in its revision before this one.

        The trace itself is found where closed traces are looked up.
        """
        key = (turn.tenant, turn.trace_id)
        names = [name for name in turn.sessions if share.takes(session_trace_id(turn.tenant, name))]
        if names:
            self._extracted.forget(key)  # it may be that of a lower revision
        for name in names:
            session = self._sessions.add((turn.tenant, name), turn)
            yield from self._judged(session, TURN)

    def turns_stored(self, key: SessionKey, turns: Sequence[Turn]) -> Iterator[JudgedSession]:
        """Judge one session once, after several of its traces were stored; else as `trace_stored`."""
        for turn in turns:
            self._extracted.forget((turn.tenant, turn.trace_id))
        yield from self._judged(self._sessions.add(key, *turns), TURN)

    def due(self, now_ns: int) -> Iterator[JudgedSession]:
        """The sessions that ended by `now_ns`."""
        yield from self._ended(self._sessions.due(now_ns))

    def end(self) -> Iterator[JudgedSession]:
        """The input has ended, and so have all sessions."""
        yield from self._ended(self._sessions.end())

    def _ended(self, ended: Iterable[tuple[KnownSession, CloseReason]]) -> Iterator[JudgedSession]:
        for session, reason in ended:
            yield from self._judged(session, reason)

    def _judged(self, known: KnownSession, reason: CloseReason) -> Iterator[JudgedSession]:
        if not self._judge.takes_session(session_trace_id(known.tenant, known.id)):
            return
        extracted = self._extracted.find(known.traces)
        known.found({key: trace.revision for key, trace in extracted.items()})
        if reason == TURN and any(trace.ends_session for trace in extracted.values()):
            reason = "end_attribute"
        ended = reason != TURN
        if ended:
            self._extracted.forget_first(extracted)
        revision = session_revision(known.members, ended=ended)
        if known.revision is not None and revision <= known.revision:
            return  # judged before a restart, or as ended
        first = min(extracted.values(), key=lambda trace: trace.began, default=None)
        rule_set = self._rule_sets.of(first.rule_set if first is not None else "")
        session = session_of(known, reason, list(extracted.values()), rule_set.hash, self._max_calls)
        decisions = self._judge.judge_session(session, rule_set)
        sequence = self._numbers.next()
        self._sessions.judged(known, ended=ended, token=sequence)
        yield JudgedSession(sequence, session, decisions)


def session_of(
    known: KnownSession, reason: str, extracted: Collection[ExtractedTrace], rule_set: str, max_calls: int
) -> Session:
    """The session that is known, as it is judged.

    Args:
        known: its traces, and which of them are not to be found.
        reason: why it closed.
        extracted: those of its traces that were found.
        rule_set: the hash of the rules that judge it.
        max_calls: as ``max_calls_per_session``; the calls that come later are left out.
    """
    parts, calls = joined(trace.parts[known.id] for trace in extracted if known.id in trace.parts)
    missing = ["end"] if reason == TURN else []
    lacking = {part.trace.trace_id for part in parts if not part.trace.complete}
    lacking.update(trace_id for _, trace_id in known.traces if not known.members[trace_id])
    missing += [f"trace:{trace_id.hex()}" for trace_id in sorted(lacking)]
    cut_by = MAX_TRACES if known.cut else None
    if len(calls) > max_calls:
        calls, cut_by = calls[:max_calls], cut_by or MAX_CALLS
    return Session(
        id=known.id,
        tenant=known.tenant,
        parts=parts,
        calls=calls,
        members=dict(known.members),
        close_reason=reason,
        missing=missing if cut_by is None else [*missing, cut_by],
        cut_by=cut_by,
        supersedes=known.revision,
        rule_set=rule_set,
        first_received_ns=max((trace.began[0] for trace in extracted), default=0),
        closed_ns=known.closed_ns,
    )
