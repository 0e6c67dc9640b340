"""Connections to one server, kept alive, that can be broken off while another thread waits for an answer."""

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, NamedTuple
from weakref import WeakSet

import urllib3
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import TimeoutError as LateError

from tracegrade.otlp.http_pool import http_pool
from tracegrade.suites.models.pace import Stopped

MAX_ANSWER_BYTES = 8 * 1024 * 1024
_CHUNK = 64 * 1024


class TooLarge(Exception):
    """An answer is longer than `MAX_ANSWER_BYTES`."""


class NotWhole(LateError):
    """An answer began, and did not end in time."""


class Answered(NamedTuple):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    text: bytes


class Connections:
    """Connections to the server at an address, or to the proxy that the environment names; used by several threads."""

    def __init__(self, url: str, at_a_time: int, timeout: urllib3.Timeout, stop: threading.Event) -> None:
        """Connect to nothing yet.

        Args:
            url: the server's; only its scheme, host and port count here.
            at_a_time: how many connections are kept.
            timeout: of each request.
            stop: when it is set, none is opened any more.
        """
        self._stop = stop
        self._sockets: WeakSet[Any] = WeakSet()
        self._pool = http_pool(url, maxsize=at_a_time, timeout=timeout)
        self._pool.pool_classes_by_scheme = {
            "http": _telling(HTTPConnectionPool, self._opened),
            "https": _telling(HTTPSConnectionPool, self._opened),
        }

    def post(self, url: str, body: object, headers: Mapping[str, str], within_s: float) -> Answered:
        """The answer to a request with `body` as JSON; no redirect is followed, and nothing retried.

        Raises:
            HTTPError, OSError, ValueError: there is none; `NotWhole`: not all of it came within `within_s`.
            TooLarge: it is.
            Stopped: the run ended meanwhile.
        """
        deadline_s = time.monotonic() + within_s
        payload = json.dumps(body, ensure_ascii=False).encode(errors="replace")
        sent = {"content-type": "application/json", "user-agent": f"tracegrade/{version('tracegrade')}", **headers}
        response = self._pool.request("POST", url, body=payload, headers=sent, preload_content=False, redirect=False)
        try:
            text = _whole(response, deadline_s)
        except BaseException:
            response.close()  # what is left unread would be the next answer
            raise
        response.release_conn()
        return Answered(response.status, response.headers, text)

    def close(self) -> None:
        """Close all connections; requests under way are broken off."""
        self._pool.clear()
        for opened in list(self._sockets):
            with suppress(OSError):  # closed already
                # As a plain socket: that of TLS would forget its state while another thread reads from it.
                socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def _opened(self, opened: Any) -> None:
        """Note a socket that was connected just now. Raises `Stopped` when the run ended meanwhile."""
        self._sockets.add(opened)
        if self._stop.is_set():
            raise Stopped


def _whole(response: urllib3.BaseHTTPResponse, deadline_s: float) -> bytes:
    parts, length = [], 0
    while part := response.read(_CHUNK, decode_content=True):
        parts.append(part)
        length += len(part)
        if length > MAX_ANSWER_BYTES:
            raise TooLarge(f"answers more than {MAX_ANSWER_BYTES // 1024**2} MiB")
        if time.monotonic() > deadline_s:
            raise NotWhole("no whole answer in time")
    return b"".join(parts)


def _telling(pool: type[HTTPConnectionPool], opened: Callable[[Any], None]) -> type[HTTPConnectionPool]:
    """A class of pools as `pool`, whose connections tell `opened` of their sockets."""
    kind: Any = pool.ConnectionCls

    class Connection(kind):  # type: ignore[misc]  # of one of two classes
        def connect(self) -> None:
            super().connect()
            opened(self.sock)

    return type(pool.__name__, (pool,), {"ConnectionCls": Connection})
