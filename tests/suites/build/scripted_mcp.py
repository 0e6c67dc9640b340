"""An MCP server that says what a test scripts, over streamable HTTP or over SSE, and notes what it is sent."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any

TOOL = {"name": "get_weather", "description": "Of a city", "inputSchema": {"type": "object", "required": ["city"]}}
WELCOME = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "weather", "version": "1"},
}


class Script:
    """What the server answers.

    ``results``: the results of a method's requests, one after another, the last for ever; an exception's argument is
    the error of JSON-RPC. ``before``: messages to send before each answer.
    """

    def __init__(self, *, events: bool = False, session: str | None = None) -> None:
        self.results: dict[str, list[Any]] = {"initialize": [WELCOME], "tools/list": [{"tools": [TOOL]}]}
        self.before: list[dict[str, Any]] = []
        self.events = events
        self.session = session
        self.answers: dict[str, Callable[[Handler], None]] = {}  # by "METHOD PATH", instead of all else
        self.endpoint = "/messages?session=7"
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []
        self.streams: SimpleQueue[str | None] = SimpleQueue()

    @property
    def methods(self) -> list[str]:
        return [body.get("method", "(an answer)") if body else verb for verb, _, _, body in self.seen]

    def headers(self, method: str) -> dict[str, str]:
        return next(headers for _, _, headers, body in self.seen if (body or {}).get("method") == method)

    def answer_to(self, request: dict[str, Any]) -> dict[str, Any]:
        results = self.results.get(request["method"], [Refused({"code": -32601, "message": "no such method"})])
        result = results.pop(0) if len(results) > 1 else results[0]
        said = {"error": result.args[0]} if isinstance(result, Refused) else {"result": result}
        return {"jsonrpc": "2.0", "id": request["id"], **said}


class Refused(Exception):
    """An error of JSON-RPC as a scripted result."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        self._handle(None)

    def do_DELETE(self) -> None:
        self._handle(None)

    def do_POST(self) -> None:
        self._handle(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _handle(self, body: Any) -> None:
        script = self.server.script
        script.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        instead = script.answers.get(f"{self.command} {self.path}")
        if instead is not None:
            instead(self)
        elif body is None:
            self.say(405)
        elif self.path != "/mcp":  # the older transport: answered by its stream
            if "id" in body and "method" in body:
                for message in [*script.before, script.answer_to(body)]:
                    script.streams.put(event(message))
            self.say(202)
        elif "id" not in body or "method" not in body:
            self.say(202)
        elif script.events:
            self.say(200, "".join(map(event, [*script.before, script.answer_to(body)])), "text/event-stream")
        else:
            self.say(200, json.dumps(script.answer_to(body)))

    def say(self, status: int, text: str = "", kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        if self.server.script.session is not None:
            self.send_header("Mcp-Session-Id", self.server.script.session)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def stream(self) -> None:
        """The older transport: the address to post to, then what is put into the script's stream; None ends it."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(f": hello\r\nevent: endpoint\r\ndata: {self.server.script.endpoint}\r\n\r\n".encode())
        while (text := self.server.script.streams.get()) is not None:
            self.wfile.write(text.encode())
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    script: Script
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that went away


def event(message: Any) -> str:
    return f"id: 1\nevent: message\ndata: {json.dumps(message)}\n\n"


def sse_script(**given: Any) -> Script:
    """A server of the older transport at /sse."""
    script = Script(**given)
    script.answers = {"POST /sse": lambda handler: handler.say(405), "GET /sse": lambda handler: handler.stream()}
    return script


@contextmanager
def scripted(script: Script, wrap: Callable[[Server], None] | None = None) -> Iterator[str]:
    """The server's ``http://127.0.0.1:PORT``."""
    with Server(("127.0.0.1", 0), Handler) as server:
        server.script = script
        if wrap is not None:
            wrap(server)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            script.streams.put(None)
            server.shutdown()
            thread.join()
