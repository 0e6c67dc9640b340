"""The local journal as the source of what is judged: one partition, read by one judge."""

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tracegrade.assemble.sessions import KnownSession
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.pipeline.heartbeat import Heartbeat
from tracegrade.pipeline.judged import Judged
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.set_aside import SetAside
from tracegrade.serve.judging.fair_shares import FairShares
from tracegrade.serve.judging.loop import JudgingParts
from tracegrade.serve.judging.source import Fetched


class JudgePosition:
    """The judge's position in the journal. While a slow disk commits it, the heartbeat goes on."""

    def __init__(self, path: Path, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._syncing = ThreadPoolExecutor(1, thread_name_prefix="position-sync")
        self._position = Position(path, sync=self._sync)
        self._read_to = 0

    def load(self) -> int:
        """The last committed position; else the first position ever, so that deletions by retention are noticed."""
        return self._position.load() or 0

    def commit(self, position: int, read_to: int) -> None:
        """Everything before `position` is done; the heartbeat still says that the journal is read up to `read_to`.

        Raises:
            OSError: the disk refused.
        """
        self._read_to = read_to
        self._position.commit(position)

    def close(self) -> None:
        """Make the last commit durable and close the file."""
        self._position.close()
        self._syncing.shutdown()

    def _sync(self, fd: int) -> None:
        self._heartbeat.beat_until(self._syncing.submit(os.fdatasync, fd), self._read_to)


POLL_S = 0.05
COMMIT_EVERY_S = 0.2
READ_BYTES = 1024 * 1024  # stays in the processor's cache while it is decoded


class JournalSuspects:
    """The records of the local journal that have ended a judge once; when one ends it again, it is set aside."""

    def __init__(self, set_aside: SetAside, judge: str) -> None:
        """Those of the judge with this name."""
        self._set_aside = set_aside
        self._judge = judge
        self.positions = set_aside.load().suspects(judge)

    def first_in(self, records: Sequence[Record]) -> int | None:
        """The place in `records` of the first suspect."""
        if not self.positions:
            return None
        return next((place for place, record in enumerate(records) if record.position in self.positions), None)

    def passed(self, position: int) -> None:
        """Everything before `position` was judged, and nothing happened."""
        if self.positions and position > self.positions[0]:
            self.positions = [suspect for suspect in self.positions if suspect >= position]
            self._set_aside.passed(position, self._judge)


class JournalSource:
    """Reads the journal from the committed position on."""

    def __init__(
        self,
        parts: JudgingParts,
        reader: JournalReader,
        position: JudgePosition,
        new_judge: Callable[[], RecordJudge],
        sessions_going_on: Callable[[], Iterable[KnownSession]],
        shares: FairShares | None = None,
    ) -> None:
        """Prepare.

        Args:
            parts: of this process.
            reader: of the journal.
            position: where reading begins.
            new_judge: makes a judge that has read nothing.
            sessions_going_on: asks the store for them when a run begins.
            shares: whose records are left unread when we are behind; without, nobody's.
        """
        self._parts = parts
        self._reader = reader
        self._position = position
        self._suspects = JournalSuspects(parts.set_aside, parts.metrics.name)
        self._new_judge = new_judge
        self._sessions_going_on = sessions_going_on
        self._shares = shares
        self._judge = new_judge()
        self._caught_up = False
        self._durable_to = 0
        self._results_end = 0  # at the last commit
        self._commit_due_s = 0.0

    @property
    def judges(self) -> Mapping[int, RecordJudge]:
        """As in `Source`."""
        return {0: self._judge}

    @property
    def read_position(self) -> int:
        """As in `Source`."""
        return self._judge.read_position

    @property
    def has_suspects(self) -> bool:
        """As in `Source`."""
        return bool(self._suspects.positions)

    def prepare(self) -> None:
        """As in `Source`."""
        self._judge.read_position = self._position.load()
        self.publish()

    def forget(self) -> None:
        """As in `Source`."""
        self._judge = self._new_judge()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """As in `Source`."""
        self._judge.resume(self._sessions_going_on())
        self._durable_to = self._judge.read_position = self._position.load()  # shown until the first record is read
        yield
        self._commit()

    def fetch(self) -> Sequence[Fetched]:
        """As in `Source`."""
        judge = self._judge
        self._caught_up = False
        durable = self._reader.durable()
        try:
            records = self._before_suspects(self._reader.read(judge.read_position, READ_BYTES))
        except SegmentDeleted as error:
            self._parts.metrics.skip(judge.read_position, error.first)
            judge.read_position = error.first
            return ()
        if self._shares is not None:
            lag_bytes = durable.end - judge.read_position
            self._shares.note_lag(lag_bytes)
            self._parts.metrics.telemetry.conditions.say("judge_leaves_out", self._shares.condition())
            judge.intake.left_unread = self._shares.left_unread(records, lag_bytes)
        self._caught_up = not records or records[-1].end >= durable.end
        judged = _judged(judge, records, max(durable.clock_ns, judge.clock_ns) if self._caught_up else None)
        return (Fetched(0, judge, judged),)

    def publish(self) -> None:
        """As in `Source`."""
        self._parts.metrics.publish(self._judge)

    def all_durable(self, results_end: int) -> int:
        """As in `Source`."""
        position, oldest = self._judge.read_position, self._judge.oldest_position
        self._durable_to = position if oldest is None else min(oldest, position)
        now_s = time.monotonic()
        if results_end != self._results_end or now_s >= self._commit_due_s:
            self._results_end = results_end
            self._commit_due_s = now_s + COMMIT_EVERY_S
            self._commit()
        return self._judge.judged_to_ns

    def end_round(self) -> None:
        """As in `Source`."""
        self._suspects.passed(self._judge.read_position)
        if self._caught_up:
            self._parts.hand_over.stopping.wait(0 if self._judge.is_judging else POLL_S)

    def _commit(self) -> None:
        self._position.commit(self._durable_to, self._judge.read_position)

    def _before_suspects(self, records: list[Record]) -> list[Record]:
        """The `records` before the first suspect; only the suspect when it comes first, with nothing else under way."""
        place = self._suspects.first_in(records)
        if place == 0:
            self._parts.writer.wait_until_stored()
            gc.collect()
        return records if place is None else records[: max(place, 1)]


def _judged(judge: RecordJudge, records: Sequence[Record], clock_ns: int | None) -> Iterator[Judged]:
    """What `records` close; when there are no more, what is due by `clock_ns`; then what was closed and not decided."""
    for record in records:
        yield from judge.read(record)
    if clock_ns is not None:
        yield from judge.tick(max(clock_ns, judge.clock_ns))
    yield from judge.go_on()
