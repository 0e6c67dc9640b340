"""An alert fires, is stored, is told to a webhook in Alertmanager's form, and resolves."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from end_to_end.server import eventually, export, running
from pipeline.harness import agent_span, payload, tool_span

RULE = {
    "id": "order-without-check",
    "title": "Orders are checked before they are created",
    "level": "high",
    "match": {"agent": "order-agent"},
    "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["check_inventory", "create_order"]}],
    "alert": [{"below": 0.6, "of": "pass_rate", "over": "1h", "min_samples": 4}],
}


class Webhook(ThreadingHTTPServer):
    """Keeps what is posted; refuses the first request, so that it has to be sent again."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.refusals = 1
        super().__init__(("127.0.0.1", 0), _Post)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Post(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, Webhook)
        if server.refusals:
            server.refusals -= 1
            self.send_response(503)
        else:
            server.posted.append(json.loads(body))
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.shutdown()
    server.server_close()


def test_a_fall_below_the_bound_is_told_and_its_end_too(tmp_path: Path, webhook: Webhook) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "rule.yaml").write_text(json.dumps(RULE))
    alerts = {
        "interval": "200ms",
        "receivers": {"ops": {"webhook": {"url": f"http://127.0.0.1:{webhook.server_port}/hook"}}},
    }
    with running(tmp_path, rules={"paths": [str(rules)]}, alerts=alerts) as server:
        for trace in range(1, 9):
            bad = [agent_span(trace, 1), tool_span(trace, 2, 1, "create_order")]
            export(server.endpoints["grpc"], payload(bad))
        (fired,) = eventually(lambda: webhook.posted[:1], "the alert")
        assert (fired["version"], fired["status"], fired["receiver"]) == ("4", "firing", "ops")
        (alert,) = fired["alerts"]
        assert alert["labels"]["rule"] == "order-without-check"
        assert alert["labels"]["service"] == "demo-shop"

        listed = server.cli("alerts", "list", "--data-dir", str(server.data), "--format", "json")
        assert [json.loads(line)["state"] for line in listed.stdout.splitlines()] == ["firing"]

        for trace in range(9, 30):
            good = [
                agent_span(trace, 1),
                tool_span(trace, 2, 1, "check_inventory"),
                tool_span(trace, 3, 1, "create_order"),
            ]
            export(server.endpoints["grpc"], payload(good))
        (resolved,) = eventually(lambda: webhook.posted[1:2], "the end of the alert")
        assert resolved["status"] == "resolved"
        assert resolved["alerts"][0]["fingerprint"] == alert["fingerprint"]
