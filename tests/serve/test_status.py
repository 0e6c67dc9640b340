"""Liveness, readiness and what both say."""

from typing import Any

from otlp.metric_snapshots import INSTANCE
from tracegrade.serve.status import status_app
from tracegrade.telemetry.metrics import Telemetry
from web.calls import call


def answers(*roles: Telemetry) -> tuple[int, int, dict[str, Any]]:
    """Status codes of ``/healthz`` and ``/readyz``, and what both answer."""
    app = status_app(lambda: [role.snapshot() for role in roles], INSTANCE)
    health, ready = call(app, "GET", "/healthz"), call(app, "GET", "/readyz")
    shown: dict[str, Any] = health.json
    assert shown["status"] == ready.json["status"]
    return health.status, ready.status, shown


def test_all_is_well() -> None:
    health, ready, shown = answers(Telemetry("receive"), Telemetry("judge"))
    assert (health, ready, shown["status"], shown["conditions"]) == (200, 200, "ok", [])
    assert shown["snapshot_age_s"].keys() == {"receive", "judge"}


def test_who_refuses_senders_is_alive_and_not_ready() -> None:
    receive = Telemetry("receive")
    receive.conditions.begin("disk_failing", "the disk is full", "journal")
    health, ready, shown = answers(receive)
    assert (health, ready, shown["status"]) == (200, 503, "refusing")
    (condition,) = shown["conditions"]
    assert condition["name"] == "disk_failing"
    assert condition["role"] == "receive"
    assert condition["where"] == "journal"
    assert condition["message"] == "the disk is full"
    assert condition["since"].endswith("Z")
    assert condition["advice"]


def test_a_judge_in_trouble_keeps_no_sender_away() -> None:
    judge = Telemetry("judge")
    judge.conditions.begin("disk_failing", "the disk is full", "results")
    health, ready, shown = answers(Telemetry("receive"), judge)
    assert (health, ready, shown["status"]) == (200, 200, "degraded")
