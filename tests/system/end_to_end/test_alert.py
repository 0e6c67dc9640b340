"""An alert fires, is stored, is told to a webhook in Alertmanager's form, and resolves."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from end_to_end.server import LOGS, Downstream, export, exporter, running
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from pipeline.harness import agent_span, payload, tool_span
from waiting import eventually

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

    before_answer: Callable[[], object] | None = None

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
            if server.before_answer is not None:
                server.before_answer()
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def alert_events(downstream: Downstream) -> list[dict[str, str]]:
    """The text attributes of each alert that came downstream as a log event."""
    return [
        {item.key: item.value.string_value for item in record.attributes}
        for body in downstream.requests[LOGS]
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
        if record.event_name == "tracegrade.alert"
    ]


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    downstream = Downstream()
    yield downstream
    downstream.stop()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.shutdown()
    server.server_close()


def test_a_fall_below_the_bound_is_told_and_its_end_too(
    tmp_path: Path, webhook: Webhook, downstream: Downstream
) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "rule.yaml").write_text(json.dumps(RULE))
    alerts = {
        "interval": "200ms",
        "channels": {"ops": {"webhook": {"url": f"http://127.0.0.1:{webhook.server_port}/hook"}}},
    }
    settings = {"rules": {"paths": [str(rules)]}, "alerts": alerts, "exporters": exporter(downstream)}
    with running(tmp_path, **settings) as server:
        for trace in range(1, 9):
            bad = [agent_span(trace, 1), tool_span(trace, 2, 1, "create_order")]
            export(server.endpoints["grpc"], payload(bad))
        (fired,) = eventually(lambda: webhook.posted[:1], "the alert")
        assert (fired["version"], fired["status"], fired["receiver"]) == ("4", "firing", "ops")
        (alert,) = fired["alerts"]
        assert alert["labels"]["rule"] == "order-without-check"
        assert alert["labels"]["service"] == "demo-shop"

        def states() -> list[str]:
            listed = server.cli("alerts", "list", "--data-dir", str(server.data), "--format", "json")
            return [json.loads(line)["state"] for line in listed.stdout.splitlines()]

        eventually(lambda: states() == ["firing"], "the alert in the store")

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
        events = eventually(lambda: found if len(found := alert_events(downstream)) == 2 else None, "both log events")
        assert [event["tracegrade.alert.state"] for event in events] == ["firing", "resolved"]
        assert {event["tracegrade.alert.key"] for event in events} == {alert["annotations"]["dedup_key"]}
