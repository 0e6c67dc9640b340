"""What is told of an alert, and a server on this machine that takes notes of what is posted to it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from build.stored_alerts import ALERT, INCIDENT, incident
from tracegrade.alert.notify.links import Links

SUMMARY = "checkout-order at shop, agent support, release 1.1: pass rate 50% is below 95% (40 results in 1 hour)"
LINES = [
    "Orders are validated first",
    "Value: 50% of 40 results, between 35% and 65%; chance alone would cause this at most once in 347 days",
    "Since: 2026-01-01 00:00 UTC",
    "Causes as of 2026-01-01 00:00 UTC:",
    "Changed near that time or since: release 1.1 first seen at 00:00 UTC",
    f"Traces to look at: http://tracegrade/traces/{'aa' * 16}",
]
LINKS = Links("http://tracegrade", "http://tracegrade/traces/{trace_id}")
PAGE = f"http://tracegrade/incidents/{INCIDENT.id}"
__all__ = ["ALERT", "INCIDENT", "incident"]
NOW_NS = ALERT.starts_ns + 60_000_000_000


class Server(HTTPServer):
    """Answers every POST with ``status``, and keeps what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.requests: list[tuple[dict[str, str], Any]] = []
        self.bodies: list[bytes] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((dict(self.headers), json.loads(body)))
        self.server.bodies.append(body)
        self.server.paths.append(self.path)
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
