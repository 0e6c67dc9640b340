"""What the judges of a data folder last said of themselves, as the receive role shows it."""

import time
from collections.abc import Callable
from typing import Any

from tracegrade.pipeline.data_folder import DELIVERY, JUDGE, DataFolder, Judge
from tracegrade.pipeline.judge_set import JudgeSet
from tracegrade.serve.supervising.judge_process import STARTS_WITHIN_S
from tracegrade.telemetry.merged import MergedSnapshots
from tracegrade.telemetry.metrics import Telemetry

SILENT_AFTER_S = 15.0

Snapshot = dict[str, Any]
Taken = dict[str, Snapshot | None]


class JudgeSnapshots:
    """Of the judges that are in force when this is made."""

    def __init__(self, folder: DataFolder, started_ns: int) -> None:
        """Prepare; `started_ns` is when this process started."""
        self.judges = JudgeSet(folder).judges
        self._folder = folder
        self._started_ns = started_ns
        self._merged = MergedSnapshots(JUDGE)

    def take(self) -> Taken:
        """The last snapshot of each judge, and of delivery where that is a process of its own.

        What a process of an earlier run said was wrong may be over: those conditions are left out.
        """
        names = [judge.name for judge in self.judges]
        if len(names) > 1:
            names.append(DELIVERY)
        return {name: self._of_this_run(self._folder.read_snapshot(name)) for name in names}

    def _of_this_run(self, snapshot: Snapshot | None) -> Snapshot | None:
        is_earlier = snapshot is not None and snapshot["time_ns"] < self._started_ns
        return {**snapshot, "conditions": []} if snapshot is not None and is_earlier else snapshot

    def shown(self, taken: Taken) -> Snapshot | None:
        """What is shown of the role: of several processes, their sums."""
        found = [snapshot for snapshot in taken.values() if snapshot is not None]
        if len(self.judges) == 1:
            return found[0] if found else None
        return self._merged.merged(found)

    def say_silent(self, taken: Taken, telemetry: Telemetry, *, is_kept: bool) -> None:
        """Update the condition of judges that say nothing; `is_kept`: this process runs them."""
        now_ns = time.time_ns()
        starts_ns = telemetry.started_ns + round(STARTS_WITHIN_S * 1e9)
        conditions = telemetry.conditions
        for judge in self.judges:
            snapshot, where = taken[judge.name], where_of(judge)
            silent_ns = now_ns - (snapshot["time_ns"] if snapshot is not None else 0)
            is_silent = is_kept and now_ns > starts_ns and silent_ns > SILENT_AFTER_S * 1e9
            is_silent = is_silent and not conditions.holds("judge_down", where)
            conditions.say("judge_silent", "no sign of how it is" if is_silent else None, where)


def shown_of_judges(folder: DataFolder) -> Callable[[], list[Snapshot]]:
    """Gives what the judges of `folder` say of themselves, for who shows nothing else: one snapshot, or none yet."""
    snapshots = JudgeSnapshots(folder, time.time_ns())

    def shown() -> list[Snapshot]:
        found = snapshots.shown(snapshots.take())
        return [] if found is None else [found]

    return shown


def where_of(judge: Judge) -> str:
    """How conditions and metrics name a judge; "" when there is only one."""
    return "" if judge.share.is_all else judge.name
