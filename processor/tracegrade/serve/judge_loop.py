"""The judging thread: it reads records, appends results and commits its position, in this order.

Each append wakes the sinks and waits for the disk, which costs more than a few results. So results are gathered for
`GATHER_S`, and meanwhile no position is committed. Where traffic is rare, results are appended at once.

So a kill at any moment loses nothing (records are read again) and doubles nothing (ids are derived, and writes are
idempotent).
"""

import gc
import time
from collections.abc import Iterable, Iterator, Sequence

from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.serve.fair_shares import FairShares
from tracegrade.serve.hand_over import HandOver
from tracegrade.serve.judge_deletions import JudgeDeletions
from tracegrade.serve.judge_metrics import JudgeMetrics
from tracegrade.serve.judge_position import JudgePosition
from tracegrade.serve.results_writer import ResultsWriter
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.serve.tuning import RareGarbageCollection
from tracegrade.serve.turns import SessionTurns

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
        reader: JournalReader,
        position: JudgePosition,
        writer: ResultsWriter,
        hand_over: HandOver,
        heartbeat: Heartbeat,
        metrics: JudgeMetrics,
        rules: RuleReload,
        deletions: JudgeDeletions,
        set_aside: SetAside,
        suspects: list[int],
        turns: SessionTurns | None = None,
        shares: FairShares | None = None,
    ) -> None:
        """Prepare.

        `suspects` are the positions of records at which earlier judges ended. `turns` are those of sessions whose
        traces were, or are, closed by several judges. `shares` says whose records are left unread when we are behind;
        without, nobody's.
        """
        self._reader = reader
        self._position = position
        self._writer = writer
        self._stopping = hand_over.stopping
        self._heartbeat = heartbeat
        self._metrics = metrics
        self._rules = rules
        self._deletions = deletions
        self._set_aside = set_aside
        self._suspects = suspects
        self._turns = turns
        self._shares = shares
        self._turns_due_s = 0.0
        self._gathered: list[Judged] = []  # not yet appended
        self._append_due_s = 0.0
        self._commit_due_s = 0.0

    def run(self, judge: RecordJudge) -> None:
        """Let `judge`, which has read nothing, judge until stopped, or until there is something to delete."""
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
            if not self._gather(judged, judge) or not self._take_turns(judge):
                return
            if records:
                position = records[-1].end
            self._heartbeat.beat(position)
            self._clear_suspects_before(position)
            garbage.collect_when_due(time.monotonic())
            if not self._gathered:
                self._all_appended(judge, position)
            if self._deletions.are_waiting():
                break
            if caught_up:
                self._writer.release_stored()
                self._stopping.wait(POLL_S)
        if self._append(judge):
            self._commit(judge, position)

    def _gather(self, judged: Iterable[Judged], judge: RecordJudge) -> bool:
        """Take `judged`, and append when it is time to; False when stopped meanwhile."""
        for item in judged:
            self._gathered.append(item)
            if len(self._gathered) >= APPENDED_TOGETHER and not self._append(judge):
                return False
        # With suspects, what a record does is known to be done before the next one is read.
        is_due = self._suspects or time.monotonic() >= self._append_due_s
        return self._append(judge) if is_due else True

    def _append(self, judge: RecordJudge) -> bool:
        """Make what was gathered durable; False when stopped meanwhile."""
        if not self._gathered:
            return True
        some, self._gathered = self._gathered, []
        if not self._writer.append({judge: some}, judge.read_position):
            return False
        self._append_due_s = time.monotonic() + GATHER_S
        self._commit_due_s = 0.0
        self._metrics.count_closed(some)
        if not self._writer.wait_for_room(judge.read_position):
            return False
        self._metrics.publish(judge)
        return True

    def _all_appended(self, judge: RecordJudge, position: int) -> None:
        """Everything that was judged by now is durable: say so."""
        self._writer.judged(judge)
        self._metrics.publish(judge)
        now_s = time.monotonic()
        if now_s >= self._commit_due_s:
            self._commit_due_s = now_s + COMMIT_EVERY_S
            self._commit(judge, position)

    def _take_turns(self, judge: RecordJudge) -> bool:
        """Judge the sessions that have turns; False when stopped meanwhile."""
        now_s = time.monotonic()
        if self._turns is not None and now_s >= self._turns_due_s:
            self._turns_due_s = now_s + TURNS_EVERY_S
            if not self._gather(self._turns.judged(judge), judge) or not self._append(judge):
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

    def _commit(self, judge: RecordJudge, position: int) -> None:
        oldest = judge.live.oldest_position
        self._position.commit(position if oldest is None else min(oldest, position), judge.read_position)


def _judged(judge: RecordJudge, records: Sequence[Record], clock_ns: int | None) -> Iterator[Judged]:
    """The judged traces that `records` close and, when there are no more, those due by `clock_ns`."""
    for record in records:
        yield from judge.read(record)
    if clock_ns is not None:
        yield from judge.tick(max(clock_ns, judge.clock_ns))
