"""One HTTP connection: uvicorn's, with a bound on everything that a client can keep it waiting for."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tracegrade.receive.ingest import RETRY_AFTER_S
from tracegrade.receive.tenants import subjects_of

# Why a connection was closed: what did not come in time, or that there were too many.
Closed: TypeAlias = Literal["headers", "headers_too_large", "body", "answer_not_read", "too_many", "malformed"]

CLIENT_SUBJECTS = "tracegrade.client_subjects"
"""Where a request's scope has the names of its client's certificate, if it showed one."""

_MAX_HEADER_BYTES = 64 * 1024
_WRITE_TIMEOUT_S = 30.0  # answers are short: who leaves 64 KiB of them unread for so long never reads them

# Long enough for a client that sends on and then reads the answer; one that never stops would have the server read on.
_GRACE_S = 2.0

_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: %d\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of clients: number of connections, and times for headers (and handshake), body and pauses."""

    max_connections: int = 1000
    read_header_timeout_s: float = 60.0
    read_timeout_s: float = 30.0
    idle_timeout_s: float = 60.0


class Connections:
    """The connections of one server, and what each may take.

    Connections without a request in work are in the order in which they began to wait. When there are too many, the one
    that has waited longest is closed for the new one, so that slow senders do not keep others out.
    """

    def __init__(self, bounds: Bounds, closed: Callable[[Closed], None]) -> None:
        self.bounds = bounds
        self.closed = closed
        self._waiting: dict[BoundedConnection, None] = {}
        self._open = 0

    def opened(self) -> bool:
        """Count one more, and make room for it; False when all others have requests in work."""
        self._open += 1
        if self._open <= self.bounds.max_connections:
            return True
        slowest = next(iter(self._waiting), None)
        if slowest is None:
            return False
        slowest.give_up("too_many")
        return True

    def lost(self, connection: "BoundedConnection") -> None:
        """Count one less."""
        self._open -= 1
        self._waiting.pop(connection, None)

    def waits(self, connection: "BoundedConnection") -> None:
        """From now on the server waits for this client."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def works(self, connection: "BoundedConnection") -> None:
        """From now on this client waits for the server."""
        self._waiting.pop(connection, None)


class BoundedConnection(HttpToolsProtocol):
    """Uvicorn's protocol with bounds.

    By itself it waits for ever for the rest of a request line and of a body, takes any number of headers and
    connections, and hands on the request of a client that offers another protocol (``Upgrade: h2c``, as Java's does)
    without its body.
    """

    def __init__(self, connections: Connections, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._http1 = self.parser = _Http1Parser(self)  # type: ignore[assignment]  # all that uvicorn calls
        self._among = connections
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._awaits_headers = False
        self._header_bytes = 0
        self._subjects: tuple[str, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin with the clock running."""
        super().connection_made(transport)
        self._subjects = subjects_of(transport.get_extra_info("peercert"))
        if self._among.opened():
            self._await("headers", self._among.bounds.read_header_timeout_s)
        else:
            transport.write(_TOO_MANY % RETRY_AFTER_S)
            self.give_up("too_many")

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything."""
        self._stop_timer()
        self.resume_writing()
        self._among.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        awaited = self._timer
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:  # a WebSocket from now on
            return
        if self._awaits_headers and self._timer is awaited:  # they began before, with nothing else in these bytes
            self._header_bytes += len(data)
            if self._header_bytes > _MAX_HEADER_BYTES:
                self.give_up("headers_too_large")
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            # Something that begins no request, such as a line's end, has stopped uvicorn's clock for idle connections.
            self._await("headers", self._among.bounds.read_header_timeout_s)

    def on_message_begin(self) -> None:
        """A request's first bytes are here."""
        super().on_message_begin()
        if self._subjects:
            self.scope[CLIENT_SUBJECTS] = self._subjects  # type: ignore[literal-required]  # ours
        self._await("headers", self._among.bounds.read_header_timeout_s)

    def on_headers_complete(self) -> None:
        """Its headers are."""
        if self._http1.is_offer:
            self._stop_timer()
            return
        self._await("body", self._among.bounds.read_timeout_s)
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        """It asked for a WebSocket: hand the connection on, which is counted until it is lost."""
        self._stop_timer()
        self._among.works(self)
        super().handle_websocket_upgrade()
        websocket: Any = self.transport.get_protocol()
        websocket.lost = partial(self._among.lost, self)

    def on_message_complete(self) -> None:
        """All of it is."""
        if self._http1.is_offer:
            return
        self._stop_timer()
        if self.cycle is not None and not self.cycle.response_complete:
            self._among.works(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Its answer was written."""
        if self._timer is None:
            self._among.waits(self)
        elif not self._awaits_headers and self.cycle is not None and self.cycle.response_complete:
            # The body has more bytes, which nobody needs: a client that reads its answer only afterwards may send them.
            self._await("body", min(_GRACE_S, self._among.bounds.read_timeout_s))
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer 400: the bytes received are not HTTP."""
        self._among.closed("malformed")
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(_WRITE_TIMEOUT_S, self._abort)

    def resume_writing(self) -> None:
        """It does again."""
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
            super().resume_writing()

    def give_up(self, why: Closed) -> None:
        """Close the connection, and count it."""
        self._stop_timer()
        self._among.works(self)  # it will be closed once
        self._among.closed(why)
        self.transport.close()

    def _abort(self) -> None:
        self._among.closed("answer_not_read")
        self.transport.abort()  # closing would wait until all was written

    def _await(self, what: Literal["headers", "body"], seconds: float) -> None:
        self._stop_timer()
        self._awaits_headers = what == "headers"
        self._among.waits(self)
        self._timer = self.loop.call_later(seconds, self.give_up, what)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._awaits_headers = False
        self._header_bytes = 0


class _Http1Parser:
    """Reads also a request that offers another protocol as HTTP/1.1, to its end (RFC 9110, 7.8: offers may be ignored).

    The parser below takes what follows the headers of such a request for the other protocol's: here a fresh one reads
    the same headers again without the offer, and then the body.
    """

    def __init__(self, protocol: HttpToolsProtocol) -> None:
        self._protocol = protocol
        self._begin()

    def _begin(self) -> None:
        self._parser = parser = httptools.HttpRequestParser(self._protocol)
        self.get_method, self.get_http_version = parser.get_method, parser.get_http_version
        self.should_keep_alive, self.should_upgrade = parser.should_keep_alive, parser.should_upgrade

    @property
    def is_offer(self) -> bool:
        """Whether the headers just read offer a protocol that is not taken; CONNECT asks for a tunnel: no offer."""
        return bool(self.should_upgrade()) and self.get_method() != b"CONNECT" and not self._protocol._should_upgrade()

    def feed_data(self, data: bytes) -> None:
        """Read on; raises what the parser below raises."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if not self.is_offer:
                raise
            head = self._head_without_offer()
            self._begin()
            self._parser.feed_data(head)
            self.feed_data(data[offer.args[0] :])

    def _head_without_offer(self) -> bytes:
        lines = [b"%s %s HTTP/%s" % (self.get_method(), self._protocol.url, self.get_http_version().encode())]
        lines += [b"%s: %s" % (name, value) for name, value in self._protocol.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])
