"""The tools of an MCP server over loopback, by both transports."""

import json
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from tracegrade.cli import main
from tracegrade.match.load import load_rules
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.mcp import import_tools, list_tools

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"name": f"tool_{n}", "description": "x", "inputSchema": SCHEMA} for n in range(3)]


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """What a server says; two tools a page."""
    if "id" not in message:
        return None
    if message["method"] == "initialize":
        result: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x"}}
    else:
        start = int(message["params"].get("cursor", 0))
        result = {"tools": TOOLS[start : start + 2]} | ({"nextCursor": "2"} if start == 0 else {})
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Handler(BaseHTTPRequestHandler):
    kind = "json"
    answers: "queue.Queue[str | None]" = queue.Queue()
    user_agents: ClassVar[set[str | None]] = set()

    def parse_request(self) -> bool:
        parsed = super().parse_request()
        self.user_agents.add(f"{self.command} {self.headers['User-Agent']}" if parsed else None)
        return parsed

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = answer(message)
        if self.kind == "sse":
            self.reply(202 if self.path.startswith("/messages") else 405, "text/plain", b"")
            if said is not None and self.path.startswith("/messages"):
                self.answers.put(json.dumps(said))
            return
        if message["method"] != "initialize" and self.headers["Mcp-Session-Id"] != "s1":
            self.reply(404, "text/plain", b"")
        elif said is None:
            self.reply(202, "text/plain", b"")
        elif self.kind == "events":
            noise = '{"jsonrpc": "2.0", "method": "notifications/message"}'
            self.reply(200, "text/event-stream", f": hi\n\ndata: {noise}\n\ndata: {json.dumps(said)}\n\n".encode())
        else:
            self.reply(200, "application/json", json.dumps(said).encode())

    def do_GET(self) -> None:
        if self.kind != "sse":
            self.reply(405, "text/plain", b"")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\r\ndata: /messages?s=1\r\n\r\n")
        while (said := self.answers.get()) is not None:
            self.wfile.write(f"event: message\r\ndata: {said}\r\n\r\n".encode())

    def reply(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Mcp-Session-Id", "s1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    handler = type("Kind", (Handler,), {"kind": getattr(request, "param", "json"), "answers": queue.Queue()})
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    running.daemon_threads = True
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}/mcp"
    handler.answers.put(None)  # type: ignore[attr-defined]
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.mark.parametrize("server", ["json", "events", "sse"], indirect=True)
def test_the_tools_of_all_pages_are_listed(server: str) -> None:
    assert list_tools(server) == TOOLS


@pytest.mark.parametrize(
    ("server", "methods"), [("json", ["POST"]), ("events", ["POST"]), ("sse", ["GET", "POST"])], indirect=["server"]
)
def test_every_request_says_who_asks(server: str, methods: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[str | None] = set()
    monkeypatch.setattr(Handler, "user_agents", found)
    list_tools(server)
    assert found == {f"{method} tracegrade/{version('tracegrade')}" for method in methods}


@pytest.mark.parametrize("server", ["other"], indirect=True)
def test_who_answers_with_an_error_is_named(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "answer", lambda message: {"id": message.get("id"), "error": {"message": "go away"}})
    with pytest.raises(SuiteError, match=r"initialize: expected a result, found .*go away"):
        list_tools(server)


def test_nobody_there_is_said() -> None:
    with pytest.raises(SuiteError, match="no MCP server answers"):
        list_tools("http://127.0.0.1:9/mcp")


def test_the_tools_become_a_rule_and_a_suite(server: str, tmp_path: Path) -> None:
    made = CliRunner().invoke(main, ["rules", "import", server, "--in", str(tmp_path)])
    assert made.exit_code == 0, made.output
    (rule,) = load_rules([tmp_path]).rules
    assert (rule.id, rule.status) == ("arguments-invalid-for-127-0-0-1", "experimental")
    assert list(rule.evaluate[0].criteria.schemas) == ["tool_0", "tool_1", "tool_2"]
    kept = json.loads((tmp_path / "imported" / rule.id / "suite.json").read_text())
    assert kept["tools"][0]["function"] == {"name": "tool_0", "description": "x", "parameters": SCHEMA}


def test_tools_without_a_schema_that_can_be_used_are_left_out_and_named() -> None:
    tools = [TOOLS[0], {"name": "b", "inputSchema": {"$ref": "https://example.org/x"}}, {"name": "c"}]
    imported = import_tools(tools, "http://h/x")  # type: ignore[arg-type]
    assert imported.rule["match"] == {"tools": ["tool_0"]}
    assert [note.partition(":")[0] for note in imported.notes] == ["tool 'b' is left out", "tool 'c' is left out"]
    with pytest.raises(SuiteError, match="found none"):
        import_tools(tools[1:], "http://h/x")  # type: ignore[arg-type]
