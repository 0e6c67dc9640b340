"""Connections to one server, kept alive, that can be broken off while another thread waits for an answer."""

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import urllib3
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool

from tracegrade.otlp.http_pool import http_pool
from tracegrade.suites.models.pace import Stopped


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

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """The answer to a request, of which only the head is read yet; no redirect is followed, and nothing retried.

        Raises:
            HTTPError, OSError, ValueError: there is none.
            Stopped: the run ended meanwhile.
        """
        return self._pool.request("POST", url, body=body, headers=headers, preload_content=False, redirect=False)

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


def _telling(pool: type[HTTPConnectionPool], opened: Callable[[Any], None]) -> type[HTTPConnectionPool]:
    """A class of pools as `pool`, whose connections tell `opened` of their sockets."""
    kind: Any = pool.ConnectionCls

    class Connection(kind):  # type: ignore[misc]  # of one of two classes
        def connect(self) -> None:
            super().connect()
            opened(self.sock)

    return type(pool.__name__, (pool,), {"ConnectionCls": Connection})
