"""Snapshots of both roles, with a metric of each kind."""

from typing import Any

from tracegrade.otlp.metrics import Instance
from tracegrade.telemetry.metrics import METRICS, Exemplar, Telemetry

INSTANCE = Instance("instance-7", "1.2.3")
CREATED_NS = 1_500_000_000
EXEMPLAR = Exemplar("5b8e9d3c17a0f2e15b8e9d3c17a0f2e1", "00f067aa0ba902b7", 0.5, 1_750_000_000)
RESULT = {
    "tenant": "shop-team",
    "rule": "r",
    "rule_hash": "01234567",
    "evaluation": "e",
    "agent": 'a"\\\n',
    "service": "shop",
}


def two_roles() -> list[dict[str, Any]]:
    """One of each role, both with the same counter."""
    receive, judge = Telemetry("receive"), Telemetry("judge")
    receive.add("tracegrade.receiver.requests", 5, signal="traces", transport="grpc", outcome="accepted", reason="")
    receive.set("tracegrade.journal.size", 4096, journal="journal")
    receive.add("tracegrade.journal.commits", 7, journal="journal")
    judge.add("tracegrade.journal.commits", 3, journal="journal")
    judge.add("tracegrade.evaluations", 2, EXEMPLAR, **RESULT, outcome="fail")
    judge.observe("tracegrade.evaluation.score", [0.0, 0.5, 0.5, 1.0], [EXEMPLAR], **RESULT)
    found = [receive.snapshot(), judge.snapshot()]
    for number, snapshot in enumerate(found):
        snapshot |= {"started_ns": 100 + number, "time_ns": 2_000_000_000 + number}
        for points in snapshot["metrics"].values():
            for point in points:
                if "created_ns" in point:
                    point["created_ns"] = CREATED_NS
    return found


def every_metric() -> dict[str, Any]:
    """One series of every metric there is."""
    telemetry = Telemetry("receive")
    for name, metric in METRICS.items():
        values = dict.fromkeys(metric.labels, "x")
        if metric.kind == "histogram":
            telemetry.observe(name, [0.5], **values)
        else:
            (telemetry.add if metric.kind == "counter" else telemetry.set)(name, 1, **values)
    return telemetry.snapshot()
