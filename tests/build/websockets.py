"""A client of WebSockets that reads one message after the other."""

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from waiting import WITHIN_S


class Refused(Exception):
    """The handshake was answered with something else than a WebSocket."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(f"{status} {body!r}")
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One open WebSocket."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        self._text = ""

    def shake_hands(self, host: str, target: str, headers: Sequence[tuple[str, str]]) -> None:
        """Raises `Refused`."""
        extra = [(name.encode(), value.encode()) for name, value in headers]
        self._send(Request(host=host, target=target, extra_headers=extra))
        found = self._next()
        if isinstance(found, AcceptConnection):
            return
        assert isinstance(found, RejectConnection), found
        body, event = b"", self._next() if found.has_body else None
        while isinstance(event, RejectData):
            body += event.data
            event = None if event.body_finished else self._next()
        told = {name.decode().lower(): value.decode() for name, value in found.headers}
        raise Refused(found.status_code, told, body)

    def read(self) -> Any:
        """The next message, read as JSON; `None` when the server closed the WebSocket."""
        while True:
            event = self._next()
            if isinstance(event, Ping):
                self._send(event.response())
            elif isinstance(event, CloseConnection):
                self.code = event.code
                return None
            elif isinstance(event, TextMessage | BytesMessage):
                self._text += str(event.data)
                if event.message_finished:
                    text, self._text = self._text, ""
                    return json.loads(text)

    def say(self, text: str) -> None:
        self._send(TextMessage(data=text))

    def _send(self, event: Event) -> None:
        self.socket.sendall(self._connection.send(event))

    def _next(self) -> Event:
        while not self._events:
            data = self.socket.recv(65536)
            self._connection.receive_data(data or None)
            self._events += self._connection.events()
            if not data and not self._events:
                raise ConnectionError("the server closed the connection")
        return self._events.pop(0)


@contextmanager
def opened(url: str, path: str = "/ws", *, host: str = "", **headers: str) -> Iterator[Client]:
    """A WebSocket to the server at `url`; ``_`` in names of headers stands for a dash. Raises `Refused`."""
    address = urlsplit(url)
    with socket.create_connection((str(address.hostname), address.port or 80), timeout=WITHIN_S) as connected:
        client = Client(connected)
        named = [(name.replace("_", "-"), value) for name, value in headers.items()]
        client.shake_hands(host or address.netloc, path, named)
        yield client
