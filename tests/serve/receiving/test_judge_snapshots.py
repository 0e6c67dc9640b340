"""What judges said of themselves, as it is shown."""

from pathlib import Path

from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.receiving.judge_snapshots import JudgeSnapshots
from tracegrade.telemetry.metrics import Telemetry


def test_what_an_earlier_run_said_was_wrong_is_not_shown_and_what_it_counted_is(tmp_path: Path) -> None:
    folder, judge = DataFolder(tmp_path), Telemetry("judge")
    judge.conditions.begin("too_many_series", "more than 1000 series", "")
    judge.add("tracegrade.spans", 7, fate="judged", reason="")
    folder.write_snapshot("judge", judge.snapshot())
    snapshots = JudgeSnapshots(folder, judge.snapshot()["time_ns"] + 1)
    shown = snapshots.shown(snapshots.take())
    assert shown is not None
    assert shown["conditions"] == []
    assert shown["metrics"]["tracegrade.spans"][0]["value"] == 7
    snapshots = JudgeSnapshots(folder, 0)
    shown = snapshots.shown(snapshots.take())
    assert shown is not None
    assert [each["name"] for each in shown["conditions"]] == ["too_many_series"]
