"""Snapshots of both roles, with a metric of each kind."""

from typing import Any

from tracegrade.otlp.metrics import Instance
from tracegrade.telemetry.metrics import METRICS, Telemetry

INSTANCE = Instance("instance-7", "1.2.3")
RESULT = {"rule": "r", "rule_hash": "01234567", "evaluation": "e", "agent": 'a"\\\n', "service": "shop"}


def two_roles() -> list[dict[str, Any]]:
    """One of each role, both with the same counter."""
    receive, judge = Telemetry("receive"), Telemetry("judge")
    receive.add("tracegrade.receiver.requests", 5, signal="traces", transport="grpc", outcome="accepted", reason="")
    receive.set("tracegrade.journal.size", 4096, journal="journal")
    receive.add("tracegrade.journal.commits", 7, journal="journal")
    judge.add("tracegrade.journal.commits", 3, journal="journal")
    judge.observe("tracegrade.evaluation.score", [0.0, 0.5, 0.5, 1.0], **RESULT)
    found = [receive.snapshot(), judge.snapshot()]
    for number, snapshot in enumerate(found):
        snapshot |= {"started_ns": 100 + number, "time_ns": 2_000_000_000 + number}
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
