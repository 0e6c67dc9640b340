"""OTLP over HTTP: protobuf and JSON, told apart by Content-Type, on Starlette and uvicorn in the caller's loop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from socket import socket
from typing import Any

import httptools
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tracegrade.journal.record import Encoding
from tracegrade.model.signal import Signal
from tracegrade.receive.body import Body, BodyRefusedError, too_large
from tracegrade.receive.ingest import RETRY_AFTER_S, Ingest, Refused
from tracegrade.receive.listen import bound_socket, check_tls, tls_options
from tracegrade.receive.reply import (
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    export_response,
    status_bytes,
    status_json,
)
from tracegrade.receive.settings import HttpSettings
from tracegrade.semconv import INSTANCE_HEADER

PATHS = {Signal.TRACES: "/v1/traces", Signal.LOGS: "/v1/logs", Signal.METRICS: "/v1/metrics"}

_WHERE = "receivers.otlp.protocols.http"
_MEDIA_TYPES = {"application/x-protobuf": Encoding.PROTOBUF, "application/json": Encoding.JSON}
_MEDIA_TYPE_OF = {encoding: name for name, encoding in _MEDIA_TYPES.items()}
_CONTENT_ENCODINGS = {"": False, "identity": False, "gzip": True}

# Refusal reason -> HTTP status and google.rpc code. 429, 502, 503 and 504 alone are retried by OTLP clients.
_STATUS = {
    "undecodable": (400, INVALID_ARGUMENT),
    "too_large": (413, RESOURCE_EXHAUSTED),
    "unsupported_media_type": (415, INVALID_ARGUMENT),
    "unsupported_encoding": (415, INVALID_ARGUMENT),
    "overloaded": (429, RESOURCE_EXHAUSTED),
    "journal_full": (429, RESOURCE_EXHAUSTED),
    "internal": (500, INTERNAL),
}
_TRY_AGAIN = (503, UNAVAILABLE)

# The rest of the body may still come, for as long as its sender likes.
_ENDS_CONNECTION = frozenset({"read_timeout"})

_MAX_HEADER_BYTES = 64 * 1024


class OtlpHttpServer:
    """OTLP/HTTP on one address; runs as a task in the loop that starts it."""

    def __init__(self, settings: HttpSettings, ingest: Ingest) -> None:
        self.port = 0  # the one bound, also when the settings say 0
        self._settings = settings
        self._app = build_app(settings, ingest)
        self._server: _EmbeddedServer | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            ReceiverStartError: the address is taken, or the certificate cannot be used.
        """
        settings = self._settings
        if settings.tls is not None:
            check_tls(_WHERE, settings.tls)
        listener = bound_socket(_WHERE, settings.endpoint)
        self.port = listener.getsockname()[1]
        self._server = _EmbeddedServer(_config(self._app, settings))
        self._running = asyncio.create_task(self._server.serve(sockets=[listener]), name="otlp-http")
        await self._server.listening.wait()

    async def stop(self, grace_s: float) -> None:
        """Take no new connections, finish the requests in work for at most `grace_s` seconds."""
        if self._server is not None and self._running is not None:
            self._server.config.timeout_graceful_shutdown = max(
                1, ceil(grace_s)
            )  # 0 would time out at once, and say so
            self._server.should_exit = True
            await self._running


def build_app(settings: HttpSettings, ingest: Ingest) -> Starlette:
    """The ASGI application."""
    app = Starlette(
        routes=[
            Route(path, _Export(settings, ingest, signal).answer, methods=["POST"]) for signal, path in PATHS.items()
        ],
        exception_handlers={404: _not_served, 405: _not_served},
    )
    app.router.redirect_slashes = False  # a redirected POST arrives as a GET, if at all
    return app


class _Export:
    """POST of one signal."""

    def __init__(self, settings: HttpSettings, ingest: Ingest, signal: Signal) -> None:
        self._bound = settings.max_request_body_size_bytes
        self._read_timeout_s = settings.read_timeout
        self._ingest = ingest
        self._signal = signal

    async def answer(self, request: Request) -> Response:
        """Take the request's body and say what became of it."""
        media_type = _media_type(request)
        encoding = _MEDIA_TYPES.get(media_type)
        try:
            if encoding is None:
                raise BodyRefusedError(_unsupported_media_type(media_type))
            return await self._accept(request, encoding)
        except BodyRefusedError as error:
            return self._refuse(error.refused, encoding)
        except ClientDisconnect:
            return self._refuse(Refused("disconnected", "the connection ended within the body"), encoding)

    async def _accept(self, request: Request, encoding: Encoding) -> Response:
        body = Body(self._bound, self._ingest.in_flight, gzip=_is_gzip(request))
        try:
            wire = await self._read(request, body)
            own_loop = request.headers.get(INSTANCE_HEADER) == self._ingest.instance_id
            outcome = await self._ingest.accept(self._signal, wire, encoding, transport="http", own_loop=own_loop)
        finally:
            body.release()
        if isinstance(outcome, Refused):
            return _refusal(outcome, encoding)
        content = export_response(self._signal, encoding, outcome)
        return Response(content, media_type=_MEDIA_TYPE_OF[encoding])

    async def _read(self, request: Request, body: Body) -> bytes:
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self._bound:
            raise BodyRefusedError(too_large(self._bound))
        try:
            async with asyncio.timeout(self._read_timeout_s):
                async for chunk in request.stream():
                    body.add(chunk)
        except TimeoutError:
            raise BodyRefusedError(
                Refused("read_timeout", f"the body did not arrive within {self._read_timeout_s:g} s", RETRY_AFTER_S)
            ) from None
        return body.finish()

    def _refuse(self, refused: Refused, encoding: Encoding | None) -> Response:
        return _refusal(self._ingest.refuse(self._signal, "http", refused), encoding)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _unsupported_media_type(found: str) -> Refused:
    return Refused("unsupported_media_type", f"expected Content-Type {' or '.join(_MEDIA_TYPES)}, found {found!r}")


def _is_gzip(request: Request) -> bool:
    name = request.headers.get("content-encoding", "").strip().lower()
    is_gzip = _CONTENT_ENCODINGS.get(name)
    if is_gzip is None:
        raise BodyRefusedError(
            Refused("unsupported_encoding", f"expected Content-Encoding gzip or identity, found {name!r}")
        )
    return is_gzip


def _refusal(refused: Refused, encoding: Encoding | None) -> Response:
    status, code = _STATUS.get(refused.reason, _TRY_AGAIN)
    headers = {}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(refused.retry_after_s)
    if refused.reason in _ENDS_CONNECTION:
        headers["Connection"] = "close"
    return _status_response(status, code, refused.message, encoding, headers)


def _status_response(
    status: int, code: int, message: str, encoding: Encoding | None, headers: dict[str, str]
) -> Response:
    """A google.rpc.Status in the request's encoding; in JSON, which people can read, when that is not known."""
    is_protobuf = encoding is Encoding.PROTOBUF
    content = status_bytes(code, message) if is_protobuf else status_json(code, message)
    media_type = _MEDIA_TYPE_OF[Encoding.PROTOBUF if is_protobuf else Encoding.JSON]
    return Response(content, status, headers, media_type)


async def _not_served(request: Request, error: Exception) -> Response:
    """404 and 405."""
    encoding = _MEDIA_TYPES.get(_media_type(request))
    if isinstance(error, HTTPException) and error.status_code == 405:
        message = f"{request.method} is not served here; OTLP is sent by POST"
        return _status_response(405, UNIMPLEMENTED, message, encoding, {"Allow": "POST"})
    message = f"nothing is served at {request.url.path!r}; expected one of {', '.join(PATHS.values())}"
    return _status_response(404, NOT_FOUND, message, encoding, {})


# uvicorn, embedded


def _config(app: Starlette, settings: HttpSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=_protocol_class(settings.read_header_timeout),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=ceil(settings.idle_timeout),
        **tls_options(settings.tls),
    )
    config.load()
    return config


class _EmbeddedServer(uvicorn.Server):
    """A uvicorn that leaves signals to its host and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def _protocol_class(header_timeout_s: float) -> type[HttpToolsProtocol]:
    """The protocol of uvicorn with a bound on the time and the size of a request's headers.

    By itself it waits for ever for the rest of a request line, and takes any number of headers; and the request of a
    client that offers another protocol (``Upgrade: h2c``, as Java's does) it hands on without its body.
    """

    class BoundedHeaders(HttpToolsProtocol):
        _timer: asyncio.TimerHandle | None = None
        _header_bytes = 0

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._http1 = self.parser = _Http1Parser(self)  # type: ignore[assignment]  # all that uvicorn calls

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            super().connection_made(transport)
            self._await_headers()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._await_headers()

        def on_headers_complete(self) -> None:
            self._stop_timer()
            if not self._http1.is_offer:
                super().on_headers_complete()

        def on_message_complete(self) -> None:
            if not self._http1.is_offer:
                super().on_message_complete()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._timer is not None:
                self._header_bytes += len(data)
                if self._header_bytes > _MAX_HEADER_BYTES:
                    self._give_up()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _await_headers(self) -> None:
            self._stop_timer()
            self._header_bytes = 0
            self._timer = self.loop.call_later(header_timeout_s, self._give_up)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._stop_timer()
            self.transport.close()

    return BoundedHeaders


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
        """Whether the headers just read offer another protocol; CONNECT asks for a tunnel, which is no offer."""
        return bool(self.should_upgrade()) and self.get_method() != b"CONNECT"

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
