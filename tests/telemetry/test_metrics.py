"""What a snapshot holds beside values."""

from typing import Any

import pytest

from tracegrade.telemetry import metrics
from tracegrade.telemetry.metrics import Exemplar, Telemetry, without_traces

SCORE = {"rule": "r", "rule_hash": "0", "evaluation": "e", "agent": "a", "service": "s"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time, ns."""
    now_ns = [1]
    monkeypatch.setattr(metrics, "time_ns", lambda: now_ns[0])
    return now_ns


def points(telemetry: Telemetry, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = telemetry.snapshot()["metrics"][name]
    return found


def test_a_counter_says_since_when_it_counts_and_a_gauge_does_not(clock: list[int]) -> None:
    telemetry = Telemetry("judge")
    clock[0] = 5
    telemetry.add("tracegrade.decisions", 2, rule="r", kind="evaluated")
    telemetry.set("tracegrade.journal.size", 2, journal="journal")
    clock[0] = 7
    telemetry.add("tracegrade.decisions", 1, rule="r", kind="evaluated")
    telemetry.add("tracegrade.decisions", 1, rule="r", kind="error")
    assert [(point["value"], point["created_ns"]) for point in points(telemetry, "tracegrade.decisions")] == [
        (3, 5),
        (1, 7),
    ]
    assert "created_ns" not in points(telemetry, "tracegrade.journal.size")[0]


def test_counters_that_are_kept_elsewhere_begin_when_they_first_come(clock: list[int]) -> None:
    telemetry = Telemetry("judge")
    telemetry.replace({"tracegrade.spans.read": {(): 4}, "tracegrade.spans.open": {(): 1}})
    telemetry.set("tracegrade.spans", 1, fate="dropped", reason="judge_behind")
    clock[0] = 9
    telemetry.replace({"tracegrade.spans.read": {(): 6}, "tracegrade.spans.open": {(): 1}})
    telemetry.set("tracegrade.spans", 2, fate="dropped", reason="judge_behind")
    assert points(telemetry, "tracegrade.spans.read") == [{"labels": {}, "value": 6, "created_ns": 1}]
    assert points(telemetry, "tracegrade.spans.open") == [{"labels": {}, "value": 1}]
    assert points(telemetry, "tracegrade.spans")[0]["created_ns"] == 1


def test_traces_can_be_forgotten_and_what_they_count_stays(clock: list[int]) -> None:
    telemetry = Telemetry("judge")
    first, second = (Exemplar(f"{n:032x}", f"{n:016x}", score, n) for n, score in ((1, 0.0), (2, 1.0)))
    telemetry.observe("tracegrade.evaluation.score", [0.0, 1.0], [first, second], **SCORE)
    known = telemetry.snapshot()
    telemetry.forget_traces({first.trace_id})
    (point,) = points(telemetry, "tracegrade.evaluation.score")
    assert (point["exemplars"], point["sum"]) == ([(12, *second)], 1.0)
    assert without_traces(known, {first.trace_id})["metrics"] == telemetry.snapshot()["metrics"]


def test_gauges_of_what_is_gone_are_forgotten() -> None:
    telemetry = Telemetry("judge")
    for journal in ("results", "results-0-of-2"):
        for consumer in ("store", "exporter"):
            telemetry.set("tracegrade.journal.position", 7, journal=journal, consumer=consumer)
    telemetry.forget_gauge("tracegrade.journal.position", journal="results-0-of-2")
    points = telemetry.snapshot()["metrics"]["tracegrade.journal.position"]
    assert {point["labels"]["journal"] for point in points} == {"results"}


def test_each_bucket_has_the_latest_exemplar(clock: list[int]) -> None:
    telemetry = Telemetry("judge")
    first, second, third = (Exemplar(f"{n:032x}", f"{n:016x}", score, n) for n, score in ((1, 0.0), (2, 1.0), (3, 1.0)))
    telemetry.observe("tracegrade.evaluation.score", [0.0, 1.0, 1.0], [first, second], **SCORE)
    telemetry.observe("tracegrade.evaluation.score", [1.0], [third], **SCORE)
    telemetry.observe("tracegrade.evaluation.score", [0.5], **SCORE)
    (point,) = points(telemetry, "tracegrade.evaluation.score")
    assert point["exemplars"] == [(0, *first), (12, *third)]
    assert point["counts"][12] == 3
