"""uvicorn inside a role: on sockets that the role made, with bounded connections; signals are the role's business."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from socket import socket
from ssl import SSLContext
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tracegrade.receive.http_connection import BoundedConnection, Bounds, Closed, Connections
from tracegrade.receive.http_head import WholeHeads


class HttpServer(uvicorn.Server):
    """Serves `app`; setting ``should_exit`` ends it, and ``listening`` is set once it takes connections."""

    def __init__(
        self,
        app: ASGIApp,
        bounds: Bounds | None = None,
        tls: SSLContext | None = None,
        closed: Callable[[Closed], None] = lambda why: None,
        *,
        stop_within_s: int | None = None,
        websockets: bool = False,
    ) -> None:
        """Prepare to serve.

        Args:
            app: what answers.
            bounds: what a client may take.
            tls: encrypt by this context.
            closed: called with the reason when the server closes a client's connection.
            stop_within_s: how long requests in work have once it ends; unset: for ever.
            websockets: whether clients may open WebSockets; without, such a request is answered as any other.
        """
        self._bounds = bounds or Bounds()
        of_websockets: dict[str, Any] = {"ws": "none"}
        if websockets:
            # Imported here: receivers take none.
            from tracegrade.receive.websocket_connection import settings

            of_websockets = settings()
        super().__init__(
            uvicorn.Config(
                WholeHeads(app),
                http=HttpToolsProtocol,
                lifespan="off",
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=ceil(self._bounds.idle_timeout_s),
                timeout_graceful_shutdown=stop_within_s,
                **of_websockets,
            )
        )
        self.config.load()
        self.listening = asyncio.Event()
        self._connections = Connections(self._bounds, closed)
        self._tls = tls

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signal handlers alone."""
        yield

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen; in place of uvicorn's own, which knows neither bounds nor a TLS context that is renewed."""
        loop = asyncio.get_running_loop()

        def connection() -> BoundedConnection:
            return BoundedConnection(
                self._connections, config=self.config, server_state=self.server_state, app_state={}, _loop=loop
            )

        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {"ssl": self._tls, "ssl_handshake_timeout": self._bounds.read_header_timeout_s}
        backlog = self.config.backlog
        self.servers = [
            await loop.create_server(connection, sock=listener, backlog=backlog, **tls) for listener in sockets or []
        ]
        self.started = True
        self.listening.set()
