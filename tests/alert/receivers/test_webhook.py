import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from pydantic import SecretStr

from tracegrade.alert.receivers.webhook import Webhook, payload
from tracegrade.alert.settings import WebhookSettings
from tracegrade.store.alerts import StoredAlert

ALERT = StoredAlert(
    fingerprint="ab" * 16,
    starts_ns=1_767_225_600_000_000_000,
    ends_ns=None,
    state="firing",
    tenant="default",
    rule_id="checkout-order",
    service="shop",
    level="high",
    title="Orders are validated first",
    of="pass_rate",
    below=0.95,
    over_s=3600.0,
    value=0.9,
    samples=40,
    updated_ns=1_767_225_600_000_000_000,
)


class Server(HTTPServer):
    """Answers every POST with ``status``, and keeps what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.requests: list[tuple[dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((dict(self.headers), json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_notification_has_alertmanager_s_form() -> None:
    resolved = replace(ALERT, service="bank", state="resolved", ends_ns=ALERT.starts_ns + 60_000_000_000)
    assert payload("pager", "checkout-order", [ALERT, resolved], "http://tracegrade") == {
        "version": "4",
        "groupKey": '{}:{rule="checkout-order"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "pager",
        "groupLabels": {"rule": "checkout-order"},
        "commonLabels": {
            "alertname": "checkout-order",
            "rule": "checkout-order",
            "tenant": "default",
            "severity": "high",
            "of": "pass_rate",
        },
        "commonAnnotations": {"description": "Orders are validated first"},
        "externalURL": "http://tracegrade",
        "alerts": [
            {
                "status": "firing",
                "labels": {
                    "alertname": "checkout-order",
                    "rule": "checkout-order",
                    "service": "shop",
                    "tenant": "default",
                    "severity": "high",
                    "of": "pass_rate",
                },
                "annotations": {
                    "summary": "checkout-order at shop: pass rate 90.0% over 1h is below 95.0% (40 judged)",
                    "description": "Orders are validated first",
                },
                "startsAt": "2026-01-01T00:00:00Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "http://tracegrade",
                "fingerprint": "ab" * 16,
            },
            {
                "status": "resolved",
                "labels": {
                    "alertname": "checkout-order",
                    "rule": "checkout-order",
                    "service": "bank",
                    "tenant": "default",
                    "severity": "high",
                    "of": "pass_rate",
                },
                "annotations": {
                    "summary": "checkout-order at bank: pass rate 90.0% over 1h is not below 95.0% (40 judged)",
                    "description": "Orders are validated first",
                },
                "startsAt": "2026-01-01T00:00:00Z",
                "endsAt": "2026-01-01T00:01:00Z",
                "generatorURL": "http://tracegrade",
                "fingerprint": "ab" * 16,
            },
        ],
    }


def test_only_resolved_alerts_make_a_resolved_notification() -> None:
    resolved = replace(ALERT, state="resolved", ends_ns=ALERT.starts_ns)
    assert payload("pager", "checkout-order", [resolved], "")["status"] == "resolved"


def test_it_is_posted_with_the_headers_of_the_settings(server: Server) -> None:
    webhook = Webhook("pager", WebhookSettings(url=server.url, headers={"Authorization": SecretStr("Bearer x")}), "")
    assert webhook.send("checkout-order", [ALERT]) is None
    webhook.close()
    ((headers, body),) = server.requests
    assert headers["Authorization"] == "Bearer x"
    assert body == payload("pager", "checkout-order", [ALERT], "")


@pytest.mark.parametrize("status", [302, 400, 503])
def test_any_other_answer_than_success_is_a_failure(server: Server, status: int) -> None:
    server.status = status
    webhook = Webhook("pager", WebhookSettings(url=server.url), "")
    assert webhook.send("checkout-order", [ALERT]) == f"answered {status}"
    webhook.close()
    assert len(server.requests) == 1, "a redirection is not followed: headers would go elsewhere"


def test_a_place_that_is_not_there_is_a_failure(server: Server) -> None:
    server.server_close()
    webhook = Webhook("pager", WebhookSettings(url=server.url), "")
    assert webhook.send("checkout-order", [ALERT]) == "cannot be reached: ConnectionError"
    webhook.close()
