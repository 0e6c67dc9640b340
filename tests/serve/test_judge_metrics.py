from pathlib import Path

from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.version import tracegrade_version
from tracegrade.serve.judge_metrics import JudgeMetrics


def test_the_next_judge_goes_on_with_what_is_wrong_but_counts_its_series_anew(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    first = JudgeMetrics(folder, max_series=7)
    assert first.telemetry.max_series == 7
    first.telemetry.conditions.begin("rules_refused", "rule.yaml:3: no evaluator 'x'")
    first.telemetry.conditions.begin("too_many_series", "there is room for 7 series")
    first.write_snapshot()
    second = JudgeMetrics(folder)
    assert second.telemetry.conditions.holds("rules_refused")
    assert not second.telemetry.conditions.holds("too_many_series")


def test_the_judge_says_which_version_it_is(tmp_path: Path) -> None:
    metrics = JudgeMetrics(DataFolder(tmp_path))
    assert metrics.telemetry.value("tracegrade.build_info", version=tracegrade_version()) == 1
