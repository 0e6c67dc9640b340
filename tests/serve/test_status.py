"""Liveness, readiness and what both say."""

from typing import Any

from build import each
from build.asgi import call
from build.metric_snapshots import INSTANCE
from tracegrade.serve.status import status_app
from tracegrade.telemetry.metrics import Telemetry


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


OPENMETRICS = "application/openmetrics-text"
PROMETHEUS_ASKS = (  # version 2.42
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@each(
    ("accept", "answered"),
    [
        (PROMETHEUS_ASKS, OPENMETRICS),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", OPENMETRICS),
        (OPENMETRICS, OPENMETRICS),
        ("text/plain;q=0.9, application/openmetrics-text", OPENMETRICS),
        ("", "text/plain"),
        ("*/*", "text/plain"),
        ("text/plain;version=0.0.4", "text/plain"),
        ("text/plain, application/openmetrics-text;q=0.5", "text/plain"),
        ("application/openmetrics-text;version=2.0.0", "text/plain"),
        ("application/openmetrics-text;q=0", "text/plain"),
        ("application/openmetrics-text;q=high", "text/plain"),
    ],
)
def test_openmetrics_is_for_those_who_ask_for_it(accept: str, answered: str) -> None:
    app = status_app(lambda: [Telemetry("receive").snapshot()], INSTANCE)
    page = call(app, "GET", "/metrics", accept=accept)
    assert page.headers["content-type"].partition(";")[0] == answered
    assert page.body.endswith(b"# EOF\n") is (answered == OPENMETRICS)
    assert page.headers["vary"] == "accept"
