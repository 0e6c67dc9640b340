"""Sessions where Kafka is the journal: each is judged where the partition of its own id is read, by turns in the store.

The traces of a session lie in any partitions, so with any judges. Whoever stores one notes a turn in the same
transaction (`tracegrade.store.several_processes`). The judge that has the session's partition reads it, and then finds
in the store all traces that were stored before. Only that judge deletes turns, when what it made of them is stored; who
gets the partition next reads those that are left, and so knows of all that its last judge knew of.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

from tracegrade.assemble.sessions import KnownSession, SessionKey
from tracegrade.assemble.share import share_of
from tracegrade.model.session import session_trace_id
from tracegrade.pipeline.judged import JudgedSession
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.session_judge import Turn
from tracegrade.serve.judging.kafka.partition_judge import ASKED_TOGETHER
from tracegrade.serve.judging.source import Fetched, Results
from tracegrade.store.several_processes import SessionTurn

LOOK_EVERY_S = 0.5
_TOGETHER = 500
_MOST_UNSTORED = 10_000


class SharedStore(Protocol):
    """The store of all judges, as sessions need it: `StoredTraces` on PostgreSQL."""

    def sessions_going_on(self) -> list[KnownSession]:
        """The sessions that have not ended."""
        ...

    def turns(self, of: int, shares: Collection[int], limit: int) -> list[SessionTurn]:
        """The turns of sessions in these `shares` of `of`, the oldest first."""
        ...

    def forget_turns(self, turns: Collection[SessionTurn]) -> None:
        """Delete these turns."""
        ...

    def judged_by_all_ns(self) -> int:
        """The store holds what came up to this time to any judge; 0 while that is not known."""
        ...


class KafkaSessions:
    """Judges the sessions of the partitions that one judge reads."""

    def __init__(self, stored: SharedStore, partitions: int) -> None:
        """`stored` is the store that all judges share; there are so many `partitions`, for all judges."""
        self._stored = stored
        self._of = partitions
        self._unstored: dict[RecordJudge, dict[SessionTurn, int]] = {}  # judged turns, and where their results end
        self._due_s = 0.0

    def take(self, fetched: Sequence[Fetched], results: Results) -> bool:
        """As in `Sessions`; the store holds what earlier judges of these partitions judged."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return True
        self._due_s = now_s + LOOK_EVERY_S
        judges = {part.partition: part.judge for part in fetched}
        self._begin(judges)
        self._forget_stored(results.stored_to)
        unstored = sum(map(len, self._unstored.values()))
        if not judges or unstored > _MOST_UNSTORED:
            return True
        clock_ns = self._stored.judged_by_all_ns()  # before turns are read: all up to then are there
        limit = unstored + _TOGETHER
        turns = self._stored.turns(self._of, judges, limit)
        if has_more := len(turns) == limit:
            self._due_s = now_s
        judged: dict[RecordJudge, list[SessionTurn]] = {}
        for number, judge in judges.items():
            known = self._unstored[judge]
            mine = (turn for turn in turns if self._partition(turn.tenant, turn.session) == number)
            judged[judge] = [turn for turn in mine if turn not in known]
            ends = () if has_more else judge.end_sessions(clock_ns)
            if not results.add(judge, chain(at_turns(judge, judged[judge]), ends)):
                return False
        if any(judged.values()) and not results.append():
            return False
        for judge, its_turns in judged.items():
            self._unstored[judge].update(dict.fromkeys(its_turns, results.end))
        return True

    def _begin(self, judges: Mapping[int, RecordJudge]) -> None:
        """Forget partitions that are no longer ours; go on with the sessions of new ones."""
        new = {number: judge for number, judge in judges.items() if judge not in self._unstored}
        self._unstored = {judge: self._unstored.get(judge, {}) for judge in judges.values()}
        if new:
            going_on = self._stored.sessions_going_on()
            for number, judge in new.items():
                judge.resume(session for session in going_on if self._partition(*session.key) == number)

    def _forget_stored(self, stored_to: int) -> None:
        stored = [turn for turns in self._unstored.values() for turn, end in turns.items() if end <= stored_to]
        if stored:
            self._stored.forget_turns(stored)
            self._unstored = {
                judge: {turn: end for turn, end in turns.items() if end > stored_to}
                for judge, turns in self._unstored.items()
            }

    def _partition(self, tenant: str, session: str) -> int:
        return share_of(session_trace_id(tenant, session), self._of)


def at_turns(judge: RecordJudge, turns: list[SessionTurn]) -> Iterator[JudgedSession]:
    """Each session once, with all its turns: traces that close together need not be judged one after the other."""
    of: dict[SessionKey, list[Turn]] = {}
    for turn in turns:
        told = Turn(turn.tenant, turn.trace_id, turn.revision, turn.closed_ns, [turn.session])
        of.setdefault((turn.tenant, turn.session), []).append(told)
    sessions = list(of.items())
    for at in range(0, len(sessions), ASKED_TOGETHER):
        some = sessions[at : at + ASKED_TOGETHER]
        judge.expect({(turn.tenant, turn.trace_id): None for _, its_turns in some for turn in its_turns})
        for session, its_turns in some:
            yield from judge.turns_of(session, its_turns)
    judge.expect(())
