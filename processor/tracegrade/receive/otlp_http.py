"""OTLP over HTTP: protobuf and JSON, by Content-Type, on Starlette and uvicorn in the caller's loop."""

import asyncio
from functools import partial
from math import ceil

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tracegrade.access.caller import Caller
from tracegrade.access.tokens import MadeTokens
from tracegrade.journal.record import Encoding
from tracegrade.model.signal import Signal
from tracegrade.receive.auth import BearerTokens
from tracegrade.receive.body import Body, BodyBounds, BodyRefusedError, Compression, too_large
from tracegrade.receive.certificate import server_context
from tracegrade.receive.http_connection import CLIENT_SUBJECTS, Bounds
from tracegrade.receive.http_server import HttpServer
from tracegrade.receive.ingest import Ingest, Refused, request_too_slow
from tracegrade.receive.listen import bound_socket
from tracegrade.receive.reply import (
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    export_response,
    status_bytes,
    status_json,
)
from tracegrade.receive.settings import HttpSettings
from tracegrade.receive.tenants import Sender, SenderTenants
from tracegrade.semconv import HEARD_HEADER, INSTANCE_HEADER

PATHS = {Signal.TRACES: "/v1/traces", Signal.LOGS: "/v1/logs", Signal.METRICS: "/v1/metrics"}

_WHERE = "receivers.otlp.protocols.http"
_MEDIA_TYPES = {"application/x-protobuf": Encoding.PROTOBUF, "application/json": Encoding.JSON}
_MEDIA_TYPE_OF = {encoding: name for name, encoding in _MEDIA_TYPES.items()}
_CONTENT_ENCODINGS: dict[str, Compression] = {
    "": "",
    "identity": "",
    "gzip": "gzip",
    "zstd": "zstd",
    "deflate": "deflate",
    "zlib": "deflate",  # as the Collector also calls it
}
_ACCEPTED_ENCODINGS = "gzip, zstd, deflate, identity"

# Refusal reason -> HTTP status and google.rpc code. 429, 502, 503 and 504 alone are retried by OTLP clients.
_STATUS = {
    "undecodable": (400, INVALID_ARGUMENT),
    "too_large": (413, RESOURCE_EXHAUSTED),
    "too_dense": (413, RESOURCE_EXHAUSTED),
    "too_compressed": (413, RESOURCE_EXHAUSTED),
    "too_many_traces": (413, RESOURCE_EXHAUSTED),
    "no_metrics_topic": (404, UNIMPLEMENTED),
    "unsupported_media_type": (415, INVALID_ARGUMENT),
    "unsupported_encoding": (415, INVALID_ARGUMENT),
    "overloaded": (429, RESOURCE_EXHAUSTED),
    "journal_full": (429, RESOURCE_EXHAUSTED),
    "over_quota": (429, RESOURCE_EXHAUSTED),
    "unauthenticated": (401, UNAUTHENTICATED),
    "too_many_failures": (429, RESOURCE_EXHAUSTED),
    "no_right": (403, PERMISSION_DENIED),
    "redaction_failed": (500, INTERNAL),
    "tenant_refused": (403, PERMISSION_DENIED),
    "internal": (500, INTERNAL),
}
_TRY_AGAIN = (503, UNAVAILABLE)

# The rest of the body may still come, for as long as its sender likes.
_ENDS_CONNECTION = frozenset({"read_timeout"})


class OtlpHttpServer:
    """OTLP/HTTP on one address; runs as a task in the loop that starts it."""

    def __init__(
        self,
        settings: HttpSettings,
        ingest: Ingest,
        max_compression_ratio: int,
        made: MadeTokens | None = None,
        tenants: SenderTenants | None = None,
    ) -> None:
        self.port = 0  # the one bound, also when the settings say 0
        self._settings = settings
        self._ingest = ingest
        self._made = made
        self._tenants = tenants
        self._body_bounds = BodyBounds(
            settings.max_request_body_size_bytes,
            f"{_WHERE}.max_request_body_size_mib",
            max_compression_ratio,
            settings.read_timeout,
        )
        self._server: HttpServer | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            TraceGradeError: the address is taken, or the certificate or the tokens cannot be used.
        """
        settings = self._settings
        tokens = None if settings.auth is None else BearerTokens(f"{_WHERE}.auth", settings.auth, self._made)
        tls = None if settings.tls is None else server_context(_WHERE, settings.tls)
        listener = bound_socket(f"{_WHERE}.endpoint", settings.endpoint)
        self.port = listener.getsockname()[1]
        bounds = Bounds(
            settings.max_connections,
            settings.read_header_timeout,
            settings.read_timeout + 1.0,  # the handler's own bound comes first: it has an answer for the sender
            settings.idle_timeout,
        )
        app = build_app(self._body_bounds, self._ingest, tokens, self._tenants)
        self._server = HttpServer(app, bounds, tls, partial(self._ingest.closed, "http"))
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


def build_app(
    bounds: BodyBounds,
    ingest: Ingest,
    tokens: BearerTokens | None = None,
    tenants: SenderTenants | None = None,
) -> Starlette:
    """The ASGI application; with `tokens`, only requests that carry one of them are taken."""
    senders = tenants or SenderTenants()
    app = Starlette(
        routes=[
            Route(path, _Export(bounds, ingest, tokens, senders, signal).answer, methods=["POST"])
            for signal, path in PATHS.items()
        ],
        exception_handlers={404: _not_served, 405: _not_served},
    )
    app.router.redirect_slashes = False  # a redirected POST arrives as a GET, if at all
    return app


class _Export:
    """POST of one signal."""

    def __init__(
        self,
        bounds: BodyBounds,
        ingest: Ingest,
        tokens: BearerTokens | None,
        tenants: SenderTenants,
        signal: Signal,
    ) -> None:
        self._bounds = bounds
        self._ingest = ingest
        self._tokens = tokens
        self._tenants = tenants
        self._signal = signal

    async def answer(self, request: Request) -> Response:
        """Take the request's body and answer the request."""
        media_type = _media_type(request)
        encoding = _MEDIA_TYPES.get(media_type)
        try:
            tenant = self._tenant(request, self._admit(request))
            if encoding is None:
                raise BodyRefusedError(_unsupported_media_type(media_type))
            return await self._accept(request, encoding, tenant)
        except BodyRefusedError as error:
            return self._refuse(error.refused, encoding)
        except ClientDisconnect:
            return self._refuse(Refused("disconnected", "the connection ended within the body"), encoding)

    def _admit(self, request: Request) -> Caller | None:
        """Who sends; None where no token is asked for."""
        if self._tokens is None:
            return None
        found = self._tokens.admitted(request.headers.get("authorization"), "send", _address(request))
        if isinstance(found, Refused):
            raise BodyRefusedError(found)
        return found

    def _tenant(self, request: Request, caller: Caller | None) -> str:
        header = self._tenants.header
        claimed = () if header is None else request.headers.getlist(header)
        sender = Sender(caller, claimed, _address(request), request.scope.get(CLIENT_SUBJECTS, ()))
        found = self._tenants.tenant_of(sender)
        if isinstance(found, Refused):
            raise BodyRefusedError(found)
        return found

    async def _accept(self, request: Request, encoding: Encoding, tenant: str) -> Response:
        body = Body(self._bounds, self._ingest.in_flight, _compression(request), tenant)
        try:
            wire = await self._read_body(request, body)
            headers = request.headers
            own_loop = self._ingest.circle.comes_back(
                self._signal, headers.get(INSTANCE_HEADER), headers.get(HEARD_HEADER)
            )
            outcome = await self._ingest.accept(
                self._signal,
                wire,
                encoding,
                transport="http",
                tenant=tenant,
                own_loop=own_loop,
                much_expanded=body.is_much_expanded,
            )
        finally:
            body.release()
        if isinstance(outcome, Refused):
            return _refusal(outcome, encoding)
        content = export_response(self._signal, encoding, outcome)
        return Response(content, media_type=_MEDIA_TYPE_OF[encoding])

    async def _read_body(self, request: Request, body: Body) -> bytes:
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self._bounds.max_bytes:
            raise BodyRefusedError(too_large(self._bounds))
        try:
            async with asyncio.timeout(self._bounds.within_s):
                async for chunk in request.stream():
                    body.add(chunk)
        except TimeoutError:
            raise BodyRefusedError(request_too_slow(self._bounds.within_s)) from None
        return body.finish()

    def _refuse(self, refused: Refused, encoding: Encoding | None) -> Response:
        return _refusal(self._ingest.refuse(self._signal, "http", refused), encoding)


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _unsupported_media_type(found: str) -> Refused:
    return Refused("unsupported_media_type", f"expected Content-Type {' or '.join(_MEDIA_TYPES)}, found {found!r}")


def _compression(request: Request) -> Compression:
    name = request.headers.get("content-encoding", "").strip().lower()
    compression = _CONTENT_ENCODINGS.get(name)
    if compression is None:
        raise BodyRefusedError(
            Refused("unsupported_encoding", f"expected Content-Encoding {_ACCEPTED_ENCODINGS}; found {name!r}")
        )
    return compression


def _refusal(refused: Refused, encoding: Encoding | None) -> Response:
    status, code = _STATUS.get(refused.reason, _TRY_AGAIN)
    headers = {}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(refused.retry_after_s)
    if refused.reason in _ENDS_CONNECTION:
        headers["Connection"] = "close"
    if refused.reason == "unsupported_encoding":
        headers["Accept-Encoding"] = _ACCEPTED_ENCODINGS
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
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
    message = f"nothing is served at {request.scope['path']!r}; expected one of {', '.join(PATHS.values())}"
    return _status_response(404, NOT_FOUND, message, encoding, {})
