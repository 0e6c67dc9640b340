"""Several processes of one role, shown as one."""

from typing import Any

import pytest

from tracegrade.telemetry import metrics
from tracegrade.telemetry.merged import MergedSnapshots
from tracegrade.telemetry.metrics import Telemetry


def telemetry(name: str, judged: int, started_ns: int = 1) -> Telemetry:
    found = Telemetry(name)
    found.started_ns = started_ns
    found.add("tracegrade.spans", judged, fate="judged", reason="")
    found.set("tracegrade.spans.open", 2)
    found.set("tracegrade.rules.loaded", 3)
    found.observe("tracegrade.evaluation.score", [1.0], **_LABELS)
    return found


_LABELS = {"rule": "r", "rule_hash": "h", "evaluation": "e", "agent": "a", "service": "s"}


def values(snapshot: dict[str, Any], name: str) -> list[float]:
    return [point["value"] for point in snapshot["metrics"][name]]


def by_fate(snapshot: dict[str, Any]) -> dict[str, float]:
    return {point["labels"]["fate"]: point["value"] for point in snapshot["metrics"]["tracegrade.spans"]}


def test_counters_and_histograms_add_up_and_what_each_knows_is_shown_once() -> None:
    shown = MergedSnapshots("judge").merged([telemetry("a", 5).snapshot(), telemetry("b", 7, 9).snapshot()])
    assert shown is not None
    assert (shown["role"], shown["started_ns"]) == ("judge", 1)
    assert values(shown, "tracegrade.spans") == [12]
    assert values(shown, "tracegrade.spans.open") == [4]
    assert values(shown, "tracegrade.rules.loaded") == [3]
    (scores,) = shown["metrics"]["tracegrade.evaluation.score"]
    assert (sum(scores["counts"]), scores["sum"]) == (2, 2.0)


def test_a_sum_counts_since_the_first_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = []
    for now_ns in (7, 5, 9):
        monkeypatch.setattr(metrics, "time_ns", lambda now_ns=now_ns: now_ns)
        snapshots.append(telemetry(f"{now_ns}", 1).snapshot())
    shown = MergedSnapshots("judge").merged(snapshots)
    assert shown is not None
    assert [point["created_ns"] for point in shown["metrics"]["tracegrade.spans"]] == [5]


def test_what_a_process_counted_before_it_was_started_again_stays_in_the_sum() -> None:
    merged = MergedSnapshots("judge")
    for judged in (6, 7):
        merged.merged([telemetry("a", 5).snapshot(), telemetry("b", judged).snapshot()])
    for started_ns, judged, total in ((10, 1, 5 + 7 + 1), (10, 3, 5 + 7 + 3), (20, 2, 5 + 7 + 3 + 2)):
        shown = merged.merged([telemetry("a", 5).snapshot(), telemetry("b", judged, started_ns).snapshot()])
        assert shown is not None
        assert by_fate(shown)["judged"] == total
        assert values(shown, "tracegrade.spans.open") == [4], "what is so now is not added to what was so"


def test_what_was_open_when_a_process_ended_is_counted_as_handed_over() -> None:
    merged = MergedSnapshots("judge")
    for judged in (6, 7):
        merged.merged([telemetry("b", judged).snapshot()])
    for restarts, started_ns in enumerate((10, 20), start=1):
        for judged in (0, 1):
            shown = merged.merged([telemetry("b", judged, started_ns).snapshot()])
        assert shown is not None
        assert by_fate(shown) == {"judged": 7 + restarts, "handed_over": 2 * restarts}


def test_what_processes_left_that_ended_before_is_not_in_the_sum() -> None:
    merged = MergedSnapshots("judge")
    left = telemetry("a", 5).snapshot()
    for _ in range(2):
        merged.merged([left])
    shown = merged.merged([telemetry("a", 1, started_ns=10).snapshot()])
    assert shown is not None
    assert by_fate(shown) == {"judged": 1}
    assert shown["started_ns"] == 10


def test_a_condition_that_several_are_in_is_shown_once_since_the_first() -> None:
    processes = [telemetry("a", 1), telemetry("b", 1)]
    for process in processes:
        process.conditions.begin("rules_refused", "line 3")
    processes[1].conditions.begin("store_unavailable", "away")
    snapshots = [process.snapshot() for process in processes]
    shown = MergedSnapshots("judge").merged(snapshots)
    assert shown is not None
    assert [found["name"] for found in shown["conditions"]] == ["rules_refused", "store_unavailable"]
    assert shown["conditions"][0]["since_ns"] == snapshots[0]["conditions"][0]["since_ns"]
    assert values(shown, "tracegrade.conditions") == [1, 1]


def test_it_is_as_old_as_the_oldest_of_them() -> None:
    first, second = telemetry("a", 1).snapshot(), telemetry("b", 1).snapshot()
    first["time_ns"] = 3
    shown = MergedSnapshots("judge").merged([second, first])
    assert shown is not None
    assert shown["time_ns"] == 3
    assert MergedSnapshots("judge").merged([]) is None
