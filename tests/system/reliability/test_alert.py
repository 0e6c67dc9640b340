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
from end_to_end.server import Server, export
from end_to_end.test_alert import RULE, Webhook
from reliability.conftest import Report
from reliability.table import Row

from pipeline.harness import agent_span, payload, tool_span
from waiting import eventually

PENDING_S = 6
SEVERAL_LOOKS_S = 1.5


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


def send(server: Server, numbers: range, *tools: str) -> None:
    for number in numbers:
        calls = [tool_span(number, 2 + place, 1, tool) for place, tool in enumerate(tools)]
        export(server.endpoints["grpc"], payload([agent_span(number, 1), *calls]))


def stored(server: Server) -> dict[str, Any]:
    """The one alert, as the command line shows it; {} before there is one."""
    shown = server.cli("alerts", "list", "-c", str(server.config), "--format", "json")
    lines = shown.stdout.splitlines()
    assert len(lines) <= 1
    found: dict[str, Any] = json.loads(lines[0]) if lines else {}
    return found


def state(server: Server) -> str:
    return str(stored(server).get("state"))


def test_a_kill_in_any_state_loses_no_notification_and_repeats_one_only_before_it_is_noted(
    tmp_path: Path, webhook: Webhook, report: Report
) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    rule = RULE | {"alert": [RULE["alert"][0] | {"sustained": f"{PENDING_S}s"}]}
    (rules / "rule.yaml").write_text(json.dumps(rule))
    channels = {"ops": {"webhook": {"url": f"http://127.0.0.1:{webhook.server_port}/hook"}}}
    server = Server(tmp_path, rules={"paths": [str(rules)]}, alerts={"interval": "200ms", "channels": channels})
    server.start()
    try:
        send(server, range(1, 9), "create_order")
        eventually(lambda: state(server) == "pending", "an alert that waits")
        begun_ns = stored(server)["starts_ns"]
        kill(server)
        assert webhook.posted == []

        # Pending goes on from where it began. The judge is killed when the news has come, before it is noted.
        killed: list[int] = []

        def kill_first() -> None:
            if not killed:
                killed.append(server.judge_pid)
                os.kill(killed[0], signal.SIGKILL)

        webhook.before_answer = kill_first
        server.start()
        eventually(lambda: len(webhook.posted) == 2, "the news, told again after the kill")
        assert stored(server)["starts_ns"] == begun_ns
        first, again = (posted["alerts"][0] for posted in webhook.posted)
        assert first["status"] == again["status"] == "firing"
        assert first["annotations"]["dedup_key"] == again["annotations"]["dedup_key"]
        eventually(lambda: stored(server)["notified"]["ops"]["state"] == "firing", "the note that it was told")

        # Firing, and told.
        kill(server)
        server.start()
        time.sleep(SEVERAL_LOOKS_S)
        assert len(webhook.posted) == 2

        # Resolved, while the channel refuses.
        webhook.refusals = 1_000_000
        send(server, range(9, 40), "check_inventory", "create_order")
        eventually(lambda: state(server) == "resolved", "the end of the alert")
        eventually(lambda: stored(server)["notified"]["ops"]["error"] == "answered 503", "the refusal, shown")
        kill(server)
        webhook.refusals = 0
        server.start()
        eventually(lambda: len(webhook.posted) == 3, "the end, told after the kill")
        (resolved,) = webhook.posted[2]["alerts"]
        assert (resolved["status"], resolved["annotations"]["dedup_key"]) == (
            "resolved",
            first["annotations"]["dedup_key"],
        )
        eventually(lambda: stored(server)["notified"]["ops"]["state"] == "resolved", "the note that it was told")

        # Resolved, and told.
        kill(server)
        server.start()
        time.sleep(SEVERAL_LOOKS_S)
        assert len(webhook.posted) == 3
    finally:
        server.stop()
    seen = "told 3 times: firing, again with the same key after the kill before it was noted, resolved"
    report(Row("kill -9 in every state of an alert", 5, lost=0, doubled=1, seen=seen))
