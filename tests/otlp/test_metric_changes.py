"""Delta temporality: what changed between two snapshots."""

from typing import Any

import pytest

from build.metric_snapshots import RESULT
from tracegrade.otlp.metric_changes import changes
from tracegrade.telemetry.metrics import Telemetry


def commits(telemetry: Telemetry, number: int) -> None:
    telemetry.add("tracegrade.journal.commits", number, journal="journal")


def at(telemetry: Telemetry, time_ns: int) -> dict[str, Any]:
    return telemetry.snapshot() | {"started_ns": 100, "time_ns": time_ns}


@pytest.fixture
def judge() -> Telemetry:
    return Telemetry("judge")


def test_counters_and_histograms_change_and_gauges_are(judge: Telemetry) -> None:
    commits(judge, 3)
    judge.set("tracegrade.journal.size", 10, journal="journal")
    judge.observe("tracegrade.evaluation.score", [0.0, 1.0], **RESULT)
    first = at(judge, 200)
    commits(judge, 4)
    judge.add("tracegrade.journal.commits", 1, journal="results")
    judge.set("tracegrade.journal.size", 12, journal="journal")
    judge.observe("tracegrade.evaluation.score", [0.5, 1.0, 1.0], **RESULT)
    (found,) = changes([at(judge, 300)], [first])
    assert (found["started_ns"], found["time_ns"]) == (200, 300)
    values = {
        (name, point["labels"]["journal"]): point["value"]
        for name in ("tracegrade.journal.commits", "tracegrade.journal.size")
        for point in found["metrics"][name]
    }
    assert values == {
        ("tracegrade.journal.commits", "journal"): 4,
        ("tracegrade.journal.commits", "results"): 1,
        ("tracegrade.journal.size", "journal"): 12,
    }
    (scores,) = found["metrics"]["tracegrade.evaluation.score"]
    assert (sum(scores["counts"]), scores["counts"][5], scores["counts"][12], scores["sum"]) == (3, 1, 2, 2.5)


def test_what_did_not_change_is_there_with_0(judge: Telemetry) -> None:
    commits(judge, 3)
    (found,) = changes([at(judge, 300)], [at(judge, 200)])
    assert [point["value"] for point in found["metrics"]["tracegrade.journal.commits"]] == [0]


def test_a_role_that_started_anew_counts_from_its_start(judge: Telemetry) -> None:
    commits(judge, 3)
    anew = at(judge, 300) | {"started_ns": 250}
    assert changes([anew], [at(judge, 200)]) == [anew]
    assert changes([anew], []) == [anew]


def test_a_role_that_said_nothing_since_is_left_out(judge: Telemetry) -> None:
    assert changes([at(judge, 200)], [at(judge, 200)]) == []


def test_a_metric_that_this_version_does_not_know_is_left_out(judge: Telemetry) -> None:
    later = at(judge, 300)
    later["metrics"]["tracegrade.of.another.version"] = [{"labels": {}, "value": 1}]
    (found,) = changes([later], [at(judge, 200)])
    assert found["metrics"] == {}
