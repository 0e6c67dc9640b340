"""The judges' progress, as the receive role sees it: from their last snapshots and their committed positions."""

import time
from typing import Any

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.pipeline.data_folder import DELIVERY, JUDGE, DataFolder, Judge
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.serve.judge_process import STARTS_WITHIN_S
from tracegrade.serve.unread import Items, JudgeBehind, SkippedItems, UnreadItems
from tracegrade.telemetry.merged import MergedSnapshots
from tracegrade.telemetry.metrics import Telemetry

SILENT_AFTER_S = 15.0
_JUDGE_BEHIND = {"fate": "dropped", "reason": "judge_behind"}

Snapshot = dict[str, Any]


class JudgeProgress:
    """How much of `journal` the judges of `folder` have not read; ``unread`` notes every record that is appended.

    Of several judges, each reads all of the journal for its share of it.
    """

    def __init__(self, folder: DataFolder, journal: LocalJournal, telemetry: Telemetry) -> None:
        self._folder = folder
        self._journal = journal
        self._telemetry = telemetry
        self._set = JudgeSet(folder)
        self._first_at_start = journal.first  # where a judge without a committed position begins
        self._judges = self._set.judges
        self.unread = UnreadItems(journal, folder.journal, self.committed(), len(self._judges))
        self._of = [_OfJudge(self, judge) for judge in self._judges]
        self._merged = MergedSnapshots(JUDGE)
        self._behind = JudgeBehind()

    def committed(self) -> int:
        """Where the judges that start now would begin: the one that is furthest behind. They may have changed."""
        return min(self.committed_by(judge) for judge in self._set.judges)

    def committed_by(self, judge: Judge) -> int:
        """The same of one of them."""
        position = Position(self._folder.position(judge.name)).load()
        return self._first_at_start if position is None else position

    def lost_some(self) -> None:
        """Retention has just deleted something that a judge had not read."""
        self._behind.lost = True

    def log(self) -> None:
        """Log once how much of the journal found at the start judges must still read; later, that it is done."""
        self.unread.log_progress(self._read_to(self._taken()))

    def say_conditions(self, *, is_kept: bool) -> None:
        """Update the conditions of judges that are silent or behind; `is_kept`: this process runs them."""
        taken = self._taken()
        now_ns = time.time_ns()
        starts_ns = self._telemetry.started_ns + round(STARTS_WITHIN_S * 1e9)
        read_to = max(self._read_to(taken), self._journal.first)
        conditions = self._telemetry.conditions
        for of in self._of:
            snapshot = taken[of.judge.name]
            silent_ns = now_ns - (snapshot["time_ns"] if snapshot is not None else 0)
            is_silent = is_kept and now_ns > starts_ns and silent_ns > SILENT_AFTER_S * 1e9
            is_silent = is_silent and not conditions.holds("judge_down", of.where)
            conditions.say("judge_silent", "no sign of how it is" if is_silent else None, of.where)
        conditions.say("judge_behind", self._behind.condition(self._journal.end - read_to))

    def snapshots(self) -> list[Snapshot]:
        """Both roles' metrics, in which promise 5's sums hold: items not read by judges are counted by position."""
        taken = self._taken()
        deleted_to = self._journal.first
        unread: Items | None = Items()
        dropped = Items()
        for of in self._of:
            read_to = of.read_to(taken[of.judge.name])
            of.skipped.note(taken[of.judge.name], read_to)
            dropped = dropped.plus(of.skipped.dropped(read_to, deleted_to))
            committed = self.committed_by(of.judge)
            behind = self.unread.behind(read_to, deleted_to, committed, of.judge.share.number)
            unread = None if unread is None or behind is None else unread.plus(behind)
            if of.where:
                self._telemetry.set("tracegrade.judge.lag", self._lag(read_to), judge=of.judge.name)
        if unread is not None:
            self._telemetry.set("tracegrade.spans.unread", unread.spans)
            self._telemetry.set("tracegrade.log_records.unread", unread.log_records)
            if any(dropped):
                self._telemetry.set("tracegrade.spans", dropped.spans, **_JUDGE_BEHIND)
                self._telemetry.set("tracegrade.log_records", dropped.log_records, **_JUDGE_BEHIND)
        if len(self._of) == 1:
            self._telemetry.set("tracegrade.judge.lag", self._lag(self._read_to(taken)))
        return [snapshot for snapshot in (self._telemetry.snapshot(), self._shown(taken)) if snapshot is not None]

    def _lag(self, read_to: int) -> int:
        return max(0, self._journal.end - max(read_to, self._journal.first))

    def _taken(self) -> dict[str, Snapshot | None]:
        """The last snapshot of each judge, and of delivery where that is a process of its own."""
        names = [judge.name for judge in self._judges]
        if len(names) > 1:
            names.append(DELIVERY)
        return {name: self._folder.read_snapshot(name) for name in names}

    def _shown(self, taken: dict[str, Snapshot | None]) -> Snapshot | None:
        """What is shown of the role: of several processes, their sums."""
        found = [snapshot for snapshot in taken.values() if snapshot is not None]
        if len(self._judges) == 1:
            return found[0] if found else None
        return self._merged.merged(found)

    def _read_to(self, taken: dict[str, Snapshot | None]) -> int:
        return min(of.read_to(taken[of.judge.name]) for of in self._of)


class _OfJudge:
    """What is known of one judge."""

    def __init__(self, progress: JudgeProgress, judge: Judge) -> None:
        self.judge = judge
        self.where = "" if judge.share.is_all else judge.name
        self.skipped = SkippedItems(progress.unread, judge.share.number)
        self._progress = progress

    def read_to(self, snapshot: Snapshot | None) -> int:
        """The position up to which it had read when it wrote `snapshot`; without one, its committed position.

        Never a position committed later: the snapshot's counts would not agree with it.
        """
        for point in (snapshot or {"metrics": {}})["metrics"].get("tracegrade.journal.position", []):
            if point["labels"] == {"journal": "journal", "consumer": self.judge.name}:
                return int(point["value"])
        return self._progress.committed_by(self.judge)
