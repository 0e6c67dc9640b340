"""A server on this machine that answers chat completions as it is told, and keeps what came."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Answer:
    """One answer of the server; ``body`` is sent as JSON, or as it is where it is bytes."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Script = Callable[[dict[str, Any]], Answer]


class Server(ThreadingHTTPServer):
    """Asks ``script`` for the answer to each request's body."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none of the test's business."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.server.paths.append(self.path)
        answer = self.server.script(body)
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving(script: Script) -> Iterator[Server]:
    with Server(script) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def completion(message: dict[str, Any], finish_reason: str = "tool_calls", **more: Any) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return Answer({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage, **more})


def calling(*calls: tuple[str, Any]) -> Answer:
    """The answer that asks for these calls, with arguments as text of JSON."""
    written = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return completion({"content": None, "tool_calls": written})


def saying(text: str) -> Answer:
    return completion({"content": text}, "stop")


def prompt_of(body: dict[str, Any]) -> str:
    return next(str(message["content"]) for message in body["messages"] if message["role"] == "user")


def write_models(folder: Path, url: str, provider: str = "one", models: str = "{m-1: {}}", **more: Any) -> Path:
    """The path of a file with one provider at `url`."""
    extra = "".join(f"    {key}: {value}\n" for key, value in more.items())
    path = folder / f"{provider}.models.yaml"
    path.write_text(f"providers:\n  {provider}:\n    base_url: {url}\n    models: {models}\n{extra}")
    return path
