"""The judge's progress, as the receive role sees it: from the judge's last snapshot and its committed position."""

import time
from typing import Any

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.position import Position
from tracegrade.pipeline.data_folder import JUDGE, DataFolder
from tracegrade.serve.judge_process import STARTS_WITHIN_S
from tracegrade.serve.unread import JudgeBehind, SkippedItems, UnreadItems
from tracegrade.telemetry.metrics import Telemetry

SILENT_AFTER_S = 15.0
_JUDGE_BEHIND = {"fate": "dropped", "reason": "judge_behind"}


class JudgeProgress:
    """How much of `journal` the judge of `folder` has not read; ``unread`` notes every record that is appended."""

    def __init__(self, folder: DataFolder, journal: LocalJournal, telemetry: Telemetry) -> None:
        self._folder = folder
        self._journal = journal
        self._telemetry = telemetry
        self._position = Position(folder.position(JUDGE))
        self._first_at_start = journal.first  # where a judge without a committed position begins
        self.unread = UnreadItems(journal, folder.journal, self.committed())
        self._skipped = SkippedItems(self.unread)
        self._behind = JudgeBehind()

    def committed(self) -> int:
        """Where a judge that starts now would begin."""
        position = self._position.load()
        return self._first_at_start if position is None else position

    def lost_some(self) -> None:
        """Retention has just deleted something that the judge had not read."""
        self._behind.lost = True

    def log(self) -> None:
        """Log once how much of the journal found at the start the judge must still read; later, that it is done."""
        self.unread.log_progress(self._read_to(self._folder.read_snapshot(JUDGE)))

    def say_conditions(self, *, is_kept: bool) -> None:
        """Update the conditions of a judge that is silent or behind; `is_kept`: this process runs one."""
        snapshot = self._folder.read_snapshot(JUDGE)
        now_ns = time.time_ns()
        conditions = self._telemetry.conditions
        starts_ns = self._telemetry.started_ns + round(STARTS_WITHIN_S * 1e9)
        silent_ns = now_ns - (snapshot["time_ns"] if snapshot is not None else 0)
        is_silent = is_kept and now_ns > starts_ns and silent_ns > SILENT_AFTER_S * 1e9
        is_silent = is_silent and not conditions.holds("judge_down")
        conditions.say("judge_silent", "no sign of how it is" if is_silent else None)
        read_to = max(self._read_to(snapshot), self._journal.first)
        conditions.say("judge_behind", self._behind.condition(self._journal.end - read_to))

    def snapshots(self) -> list[dict[str, Any]]:
        """Both roles' metrics, in which promise 5's sums hold: items not read by the judge are counted by position."""
        judge = self._folder.read_snapshot(JUDGE)
        read_to = self._read_to(judge)
        deleted_to = self._journal.first
        self._skipped.note(judge, read_to)
        dropped = self._skipped.dropped(read_to, deleted_to)
        unread = self.unread.behind(read_to, deleted_to, self.committed())
        if unread is not None:
            self._telemetry.set("tracegrade.spans.unread", unread.spans)
            self._telemetry.set("tracegrade.log_records.unread", unread.log_records)
            if any(dropped):
                self._telemetry.set("tracegrade.spans", dropped.spans, **_JUDGE_BEHIND)
                self._telemetry.set("tracegrade.log_records", dropped.log_records, **_JUDGE_BEHIND)
        self._telemetry.set("tracegrade.judge.lag", max(0, self._journal.end - max(read_to, deleted_to)))
        return [snapshot for snapshot in (self._telemetry.snapshot(), judge) if snapshot is not None]

    def _read_to(self, snapshot: dict[str, Any] | None) -> int:
        """The position up to which the judge had read when it wrote `snapshot`; without one, its committed position.

        Never a position committed later: the snapshot's counts would not agree with it.
        """
        for point in (snapshot or {"metrics": {}})["metrics"].get("tracegrade.journal.position", []):
            if point["labels"] == {"journal": "journal", "consumer": JUDGE}:
                return int(point["value"])
        return self.committed()
