"""The judging thread: it reads records, appends results and commits its position, in this order.

Each append wakes the sinks and waits for the disk, which costs more than a few results. So results are gathered for
`GATHER_S`, and meanwhile no position is committed. Where traffic is rare, results are appended at once.

So a kill at any moment loses nothing (records are read again) and doubles nothing (ids are derived, and writes are
idempotent).
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from tracegrade.assemble.sessions import KnownSession
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.serve.judging.fair_shares import FairShares
from tracegrade.serve.judging.parts import JudgingParts
from tracegrade.serve.judging.position import JudgePosition
from tracegrade.serve.judging.turns import SessionTurns
from tracegrade.serve.tuning import RareGarbageCollection

POLL_S = 0.05
GATHER_S = 0.2  # the shortest time between two appends, unless there are many results
COMMIT_EVERY_S = 0.2
TURNS_EVERY_S = 0.2
APPENDED_TOGETHER = 256  # judged traces; so results are delivered while many closings are still being judged
READ_BYTES = 1024 * 1024  # stays in the processor's cache while it is decoded


class JudgeLoop:
    """Reads the journal from the committed position on, and judges the traces that close."""

    def __init__(
        self,
        parts: JudgingParts,
        reader: JournalReader,
        position: JudgePosition,
        set_aside: SetAside,
        suspects: list[int],
        new_judge: Callable[[], RecordJudge],
        sessions_going_on: Callable[[], Iterable[KnownSession]],
        turns: SessionTurns | None = None,
        shares: FairShares | None = None,
    ) -> None:
        """Prepare.

        Args:
            parts: of this process.
            reader: of the journal.
            position: where reading begins.
            set_aside: is told that suspects were passed.
            suspects: the positions of records at which earlier judges ended.
            new_judge: makes a judge that has read nothing.
            sessions_going_on: asks the store for them when a run begins.
            turns: those of sessions whose traces were, or are, closed by several judges.
            shares: whose records are left unread when we are behind; without, nobody's.
        """
        self._reader = reader
        self._position = position
        self._writer = parts.writer
        self._stopping = parts.hand_over.stopping
        self._heartbeat = parts.heartbeat
        self._metrics = parts.metrics
        self._rules = parts.rules
        self._deletions = parts.deletions
        self._set_aside = set_aside
        self._suspects = suspects
        self._new_judge = new_judge
        self._sessions_going_on = sessions_going_on
        self._turns = turns
        self._shares = shares
        self._judge = new_judge()
        self._turns_due_s = 0.0
        self._gathered: list[Judged] = []  # not yet appended
        self._append_due_s = 0.0
        self._commit_due_s = 0.0

    @property
    def read_position(self) -> int:
        """How far is read: for the heartbeat."""
        return self._judge.read_position

    def prepare(self) -> None:
        """Publish what is known before anything is read: so the counts of unread items go with a snapshot of ours."""
        self._judge.read_position = self._position.load()
        self._metrics.publish(self._judge)

    def forget(self) -> None:
        """Begin the next run as after a start: all open traces are read again, from the committed position."""
        self._judge = self._new_judge()

    def run(self) -> None:
        """Judge until stopped, or until there is something to delete. The store holds all results when it begins."""
        judge = self._judge
        judge.resume(self._sessions_going_on())
        position = judge.read_position = self._position.load()  # shown until the first record is read
        if self._turns is not None:
            self._turns.begin()
        garbage = RareGarbageCollection()
        while not self._stopping.is_set():
            judge.use(self._rules.in_force)
            durable = self._reader.durable()
            try:
                records = self._before_suspects(self._reader.read(position, READ_BYTES))
            except SegmentDeleted as error:
                self._metrics.skip(position, error.first)
                position = judge.read_position = error.first
                self._metrics.publish(judge)
                continue
            if self._shares is not None:
                lag_bytes = durable.end - position
                self._shares.look(lag_bytes)
                self._metrics.telemetry.conditions.say("judge_leaves_out", self._shares.condition())
                judge.intake.left_unread = self._shares.left_unread(records, lag_bytes)
            caught_up = not records or records[-1].end >= durable.end
            judged = _judged(judge, records, max(durable.clock_ns, judge.clock_ns) if caught_up else None)
            if not self._gather(chain(judged, judge.go_on())) or not self._take_turns():
                return
            if records:
                position = records[-1].end
            self._heartbeat.beat(position)
            self._clear_suspects_before(position)
            garbage.collect_when_due(time.monotonic())
            if not self._gathered:
                self._all_appended(position)
            if self._deletions.are_waiting():
                break
            if caught_up:
                self._writer.release_stored()
                self._stopping.wait(0 if judge.is_judging else POLL_S)
        if self._append():
            self._commit(position)

    def _gather(self, judged: Iterable[Judged]) -> bool:
        """Take `judged`, and append when it is time to; False when stopped meanwhile."""
        for item in judged:
            self._gathered.append(item)
            if len(self._gathered) >= APPENDED_TOGETHER and not self._append():
                return False
        # With suspects, what a record does is known to be done before the next one is read.
        is_due = self._suspects or time.monotonic() >= self._append_due_s
        return self._append() if is_due else True

    def _append(self) -> bool:
        """Make what was gathered durable; False when stopped meanwhile."""
        if not self._gathered:
            return True
        some, self._gathered = self._gathered, []
        if not self._writer.append({self._judge: some}, self.read_position):
            return False
        self._append_due_s = time.monotonic() + GATHER_S
        self._commit_due_s = 0.0
        self._metrics.count_closed(some)
        if not self._writer.wait_for_room(self.read_position):
            return False
        self._metrics.publish(self._judge)
        return True

    def _all_appended(self, position: int) -> None:
        """Everything that was judged by now is durable: say so."""
        self._writer.judged(self._judge)
        self._metrics.publish(self._judge)
        now_s = time.monotonic()
        if now_s >= self._commit_due_s:
            self._commit_due_s = now_s + COMMIT_EVERY_S
            self._commit(position)

    def _take_turns(self) -> bool:
        """Judge the sessions that have turns; False when stopped meanwhile."""
        now_s = time.monotonic()
        if self._turns is not None and now_s >= self._turns_due_s:
            self._turns_due_s = now_s + TURNS_EVERY_S
            if not self._gather(self._turns.judged(self._judge)) or not self._append():
                return False
            self._turns.commit()
        return True

    def _before_suspects(self, records: list[Record]) -> list[Record]:
        """The `records` before the first suspect; only the suspect when it comes first, with nothing else under way."""
        if not self._suspects:
            return records
        for number, record in enumerate(records):
            if record.position in self._suspects:
                if number == 0:
                    self._writer.wait_until_stored()
                    gc.collect()
                return records[: max(number, 1)]
        return records

    def _clear_suspects_before(self, position: int) -> None:
        if self._suspects and position > self._suspects[0]:
            self._suspects = [suspect for suspect in self._suspects if suspect >= position]
            self._set_aside.passed(position, self._metrics.name)

    def _commit(self, position: int) -> None:
        oldest = self._judge.oldest_position
        self._position.commit(position if oldest is None else min(oldest, position), self.read_position)


def _judged(judge: RecordJudge, records: Sequence[Record], clock_ns: int | None) -> Iterator[Judged]:
    """The judged traces that `records` close and, when there are no more, those due by `clock_ns`."""
    for record in records:
        yield from judge.read(record)
    if clock_ns is not None:
        yield from judge.tick(max(clock_ns, judge.clock_ns))
