"""Calls of the app without a socket."""

import asyncio
import json
import traceback
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message


@dataclass
class Called:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def call(
    app: ASGIApp, method: str, address: str, body: bytes = b"", *, client: str = "127.0.0.1", **headers: str
) -> Called:
    """One request, from a program on this machine unless told; ``_`` in names of headers stands for a dash."""
    path, _, query = address.partition("?")
    named = {"host": "127.0.0.1:4319"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items() if value],
        "client": (client, 50000),
        "server": ("127.0.0.1", 4319),
    }
    sent: list[Message] = []

    waiting: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    try:
        asyncio.run(app(scope, receive, send))
    except Exception:
        if not sent:  # a crash that was answered is raised again, for the log
            raise
        traceback.print_exc()  # a test that fails on it shows what there would be in the log
    start = next(message for message in sent if message["type"] == "http.response.start")
    content = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return Called(start["status"], {k.decode(): v.decode("latin-1") for k, v in start["headers"]}, content)
