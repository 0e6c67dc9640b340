"""The judges' progress, as the receive role sees it: from their last snapshots and their committed positions."""

from tracegrade.assemble.dispositions import DROPPED
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.pipeline.data_folder import DataFolder, Judge
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.serve.receiving.judge_snapshots import JudgeSnapshots, Snapshot, Taken, where_of
from tracegrade.serve.receiving.unread import Items, JudgeBehind, SkippedItems, UnreadItems
from tracegrade.telemetry.metrics import Telemetry

_JUDGE_BEHIND = {"fate": DROPPED, "reason": "judge_behind"}


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
        self._snapshots = JudgeSnapshots(folder, telemetry.started_ns)
        judges = self._snapshots.judges
        self.unread = UnreadItems(journal, folder.journal, self.committed(), len(judges))
        self._of = [_OfJudge(self, judge) for judge in judges]
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
        self.unread.log_progress(self._read_to(self._snapshots.take()))

    def say_conditions(self, *, is_kept: bool) -> None:
        """Update the conditions of judges that are silent or behind; `is_kept`: this process runs them."""
        taken = self._snapshots.take()
        self._snapshots.say_silent(taken, self._telemetry, is_kept=is_kept)
        read_to = max(self._read_to(taken), self._journal.first)
        self._telemetry.conditions.say("judge_behind", self._behind.condition(self._journal.end - read_to))

    def snapshots(self) -> list[Snapshot]:
        """Both roles' metrics, in which promise 5's sums hold: items not read by judges are counted by position."""
        taken = self._snapshots.take()
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
        return [
            snapshot for snapshot in (self._telemetry.snapshot(), self._snapshots.shown(taken)) if snapshot is not None
        ]

    def _lag(self, read_to: int) -> int:
        return max(0, self._journal.end - max(read_to, self._journal.first))

    def _read_to(self, taken: Taken) -> int:
        return min(of.read_to(taken[of.judge.name]) for of in self._of)


class _OfJudge:
    """What is known of one judge."""

    def __init__(self, progress: JudgeProgress, judge: Judge) -> None:
        self.judge = judge
        self.where = where_of(judge)
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
