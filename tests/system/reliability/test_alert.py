"""kill -9 in every state of an alert: what was begun goes on, and nobody is told twice, or but for one moment."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from end_to_end.test_alert import FELL, MISSING, Webhook, at, listed, remember, send
from reliability.conftest import Report
from reliability.table import Row

from build.served import Server
from waiting import eventually

pytestmark = pytest.mark.long


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    webhook.refusals = 0
    yield webhook
    webhook.shutdown()
    webhook.server_close()


def kill(server: Server) -> None:
    """kill -9 of both roles."""
    with suppress(ProcessLookupError):
        os.kill(server.judge_pid, signal.SIGKILL)
    server.kill()


def stored(server: Server, service: str = "shop-a") -> dict[str, Any]:
    """The one alert at `service`, as the command line shows it; {} before there is one."""
    found = [alert for alert in listed(server) if alert["service"] == service]
    assert len(found) <= 1
    return found[0] if found else {}


def state(server: Server) -> str:
    return str(stored(server).get("state"))


def told_as(server: Server) -> str:
    """The state that the channel was last told, as it is noted."""
    return str(stored(server)["notified"].get("ops", {}).get("state"))


def next_told(server: Server, webhook: Webhook, service: str, first_trace: int) -> None:
    """Let an alert at another service fire: what the checks until then told again would be told before it."""
    told = len(webhook.posted)
    send(server, range(first_trace, first_trace + MISSING), "create_order", service=service)
    eventually(lambda: stored(server, service).get("notified", {}).get("ops"), "the note that it was told")
    assert [[alert["labels"]["service"] for alert in posted["alerts"]] for posted in webhook.posted[told:]] == [
        [service]
    ]


def test_a_kill_in_any_state_loses_no_notification_and_repeats_one_only_before_it_is_noted(
    tmp_path: Path, webhook: Webhook, report: Report
) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    services = ("shop-a", "shop-b", "shop-c")

    def write(*, with_alert: bool) -> None:
        for service in services:
            rule = {name: value for name, value in at(service).items() if with_alert or name != "alert"}
            (folder / f"{service}.rule.yaml").write_text(json.dumps(rule))

    write(with_alert=True)
    remember(tmp_path / "data", FELL, time.time_ns(), *services, rule_at=at)
    channels = {"ops": {"webhook": {"url": f"http://127.0.0.1:{webhook.server_port}/hook"}}}
    rules = {"paths": [str(folder)], "reload": "200ms"}
    server = Server(tmp_path, rules=rules, alerts={"interval": "200ms", "channels": channels})

    # The judge is killed when the news has come, before it is noted.
    killed: list[int] = []

    def kill_first() -> None:
        if not killed:
            killed.append(server.judge_pid)
            os.kill(killed[0], signal.SIGKILL)

    webhook.before_answer = kill_first
    server.start()
    try:
        # With evidence enough, and too few results: what a judge knows of an alert to come is in the store alone.
        send(server, range(1, MISSING), "create_order", service="shop-a")
        eventually(lambda: server.cli("traces", "list", "--data-dir", str(server.data)).stdout, "a judged trace")
        kill(server)
        assert webhook.posted == []
        server.start()
        send(server, range(MISSING, MISSING + 1), "create_order", service="shop-a")
        eventually(lambda: len(webhook.posted) == 2, "the news, told again after the kill")
        begun_ns = stored(server)["starts_ns"]
        first, again = (posted["alerts"][0] for posted in webhook.posted)
        assert first["status"] == again["status"] == "firing"
        assert first["annotations"]["dedup_key"] == again["annotations"]["dedup_key"]
        eventually(lambda: told_as(server) == "firing", "the note that it was told")

        # Firing, and told.
        kill(server)
        server.start()
        next_told(server, webhook, "shop-b", 101)
        assert stored(server)["starts_ns"] == begun_ns

        # Resolved, while the channel refuses.
        webhook.refusals = 1_000_000
        write(with_alert=False)
        eventually(lambda: state(server) == "resolved", "the end of the alert")
        eventually(lambda: stored(server)["notified"]["ops"]["error"] == "answered 503", "the refusal, shown")
        kill(server)
        webhook.refusals = 0
        server.start()
        eventually(lambda: len(webhook.posted) == 5, "the end of both, told after the kill")
        ended = {alert["labels"]["service"]: alert for posted in webhook.posted[3:] for alert in posted["alerts"]}
        assert {name: alert["status"] for name, alert in ended.items()} == {"shop-a": "resolved", "shop-b": "resolved"}
        assert ended["shop-a"]["annotations"]["dedup_key"] == first["annotations"]["dedup_key"]
        eventually(lambda: told_as(server) == "resolved", "the note that it was told")

        # Resolved, and told. Its rule has its alert again, but what made it fire does not make it fire again.
        kill(server)
        write(with_alert=True)
        server.start()
        next_told(server, webhook, "shop-c", 201)
        assert state(server) == "resolved"
    finally:
        server.stop()
    seen = "told 3 times: firing, again with the same key after the kill before it was noted, resolved"
    report(Row("kill -9 in every state of an alert", 5, lost=0, doubled=1, seen=seen))
