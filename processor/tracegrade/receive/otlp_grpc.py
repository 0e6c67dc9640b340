"""OTLP over gRPC: the three Export services and the health service, as one generic handler over raw bytes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tracegrade.access.caller import Caller
from tracegrade.access.tokens import MadeTokens
from tracegrade.journal.record import Encoding
from tracegrade.model.signal import Signal
from tracegrade.otlp.reloading import LOOK_EVERY_S, Reloading
from tracegrade.receive.auth import BearerTokens
from tracegrade.receive.body import Body, BodyBounds, BodyRefusedError, Compression
from tracegrade.receive.certificate import Certificate, reloading_certificate
from tracegrade.receive.grpc_connections import GrpcConnections
from tracegrade.receive.ingest import RETRY_AFTER_S, InFlight, Ingest, Refused, request_too_slow
from tracegrade.receive.listen import bound_socket, cannot_listen
from tracegrade.receive.reply import RESOURCE_EXHAUSTED, UNAVAILABLE, export_response, retry_info_bytes, status_bytes
from tracegrade.receive.settings import GrpcSettings, split_endpoint
from tracegrade.receive.tenants import Sender, SenderTenants, grpc_address
from tracegrade.semconv import HEARD_HEADER, INSTANCE_HEADER

EXPORT_METHODS = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    Signal.METRICS: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
_SERVICES = frozenset(["", *(method.split("/")[1] for method in EXPORT_METHODS.values())])

_Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

_WHERE = "receivers.otlp.protocols.grpc"
_HEALTH_BOUNDS = BodyBounds(4096, "")  # it names a service
_STEP_BYTES = 16 * 1024  # decompressed at a time
_MOST_WATCHES = 100  # of health: each call lasts as long as its client likes

# Refusals that are final; all others ask the sender to try again.
_FINAL_CODES = {
    "undecodable": grpc.StatusCode.INVALID_ARGUMENT,
    "too_large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too_dense": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too_compressed": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "too_many_traces": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "no_metrics_topic": grpc.StatusCode.UNIMPLEMENTED,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "no_right": grpc.StatusCode.PERMISSION_DENIED,
    "tenant_refused": grpc.StatusCode.PERMISSION_DENIED,
}

# With a delay, clients try this again too: it is the sender who is over its bound, not we who are away.
_RETRYABLE_CODES = {"over_quota": (grpc.StatusCode.RESOURCE_EXHAUSTED, RESOURCE_EXHAUSTED)}

# HealthCheckResponse{status}: too small for a dependency that would decide which protobuf users may install.
_SERVING = b"\x08\x01"
_NOT_SERVING = b"\x08\x02"
_SERVICE_UNKNOWN = b"\x08\x03"


# What gRPC logs, with a traceback, when it cannot write an answer: the sender hung up.
_grpc_log = logging.getLogger("grpc._cython.cygrpc")


def _without_gone_senders(record: logging.LogRecord) -> bool:
    """Make one line of a sender that hung up before its answer; it sends again, and no span is lost."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__name__ == "ExecuteBatchError":  # gRPC does not export it
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.msg, record.args, record.exc_info = "a sender hung up before it was answered", (), None
    return True


class OtlpGrpcServer:
    """OTLP/gRPC on one address; runs in the loop that starts it."""

    def __init__(
        self,
        settings: GrpcSettings,
        ingest: Ingest,
        max_compression_ratio: int,
        made: MadeTokens | None = None,
        tenants: SenderTenants | None = None,
    ) -> None:
        self.port = 0  # the one bound, also when the settings say 0
        self._settings = settings
        self._ingest = ingest
        self._made = made
        self._tenants = tenants or SenderTenants()
        self._bounds = BodyBounds(
            settings.max_recv_msg_size_bytes,
            f"{_WHERE}.max_recv_msg_size_mib",
            max_compression_ratio,
            settings.read_timeout,
        )
        self._connections = GrpcConnections(settings.max_connections, partial(ingest.closed, "grpc", "too_many"))
        self._making_room: asyncio.Task[None] | None = None
        self._server = grpc.aio.server(options=_channel_options(settings))
        _grpc_log.addFilter(_without_gone_senders)  # once: adding it again does nothing

    async def start(self) -> None:
        """Listen and serve.

        Raises:
            TraceGradeError: the address is taken, or the certificate or the tokens cannot be used.
        """
        endpoint, tls, auth = self._settings.endpoint, self._settings.tls, self._settings.auth
        host, port = split_endpoint(endpoint)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        tokens = None if auth is None else BearerTokens(f"{_WHERE}.auth", auth, self._made)
        certificate = None if tls is None else reloading_certificate(_WHERE, tls)
        self._server.add_generic_rpc_handlers(
            (_Handlers(self._ingest, tokens, self._tenants, self._bounds, self._connections),)
        )
        bound_socket(f"{_WHERE}.endpoint", endpoint).close()  # raises with the reason; gRPC would only log it
        try:
            if certificate is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, _credentials(certificate))
        except RuntimeError as error:
            raise cannot_listen(f"{_WHERE}.endpoint", endpoint, "in use, or not an address of this machine") from error
        self._connections.port = self.port
        await self._server.start()
        self._making_room = asyncio.create_task(self._connections.run(), name="otlp-grpc-connections")

    async def stop(self, grace_s: float) -> None:
        """Take no new connections and calls, finish those in work for at most `grace_s` seconds."""
        if self._making_room is not None:
            self._making_room.cancel()
        await self._server.stop(grace_s)


def _channel_options(settings: GrpcSettings) -> list[tuple[str, Any]]:
    server, enforcement = settings.keepalive.server_parameters, settings.keepalive.enforcement_policy
    durations = {
        "grpc.max_connection_idle_ms": server.max_connection_idle,
        "grpc.max_connection_age_ms": server.max_connection_age,
        "grpc.max_connection_age_grace_ms": server.max_connection_age_grace,
        "grpc.keepalive_time_ms": server.time,
        "grpc.keepalive_timeout_ms": server.timeout,
        "grpc.http2.min_recv_ping_interval_without_data_ms": enforcement.min_time,
    }
    return [
        # On by default on Linux: a second receiver on the port would start, and take half of the requests.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.max_recv_msg_size_bytes),
        # gRPC would decompress whole messages, one for each call at the same time, before we see any.
        ("grpc.per_message_decompression", 0),
        ("grpc.max_concurrent_streams", settings.max_concurrent_streams),
        ("grpc.max_allowed_incoming_connections", 2 * settings.max_connections),  # for a moment: see GrpcConnections
        ("grpc.server_handshake_timeout_ms", int(settings.read_header_timeout * 1000)),
        ("grpc.keepalive_permit_without_calls", int(enforcement.permit_without_stream)),
        *((name, int(seconds * 1000)) for name, seconds in durations.items() if seconds is not None),
    ]


def _credentials(certificate: Reloading[Certificate]) -> grpc.ServerCredentials:
    def latest() -> grpc.ServerCertificateConfiguration | None:  # asked before each handshake; None: as before
        return _configuration(certificate.value) if certificate.poll() else None

    return grpc.dynamic_ssl_server_credentials(
        _configuration(certificate.value),
        latest,  # type: ignore[arg-type]  # the stubs know nothing of None, the documentation does
        require_client_authentication=certificate.value.client_authority is not None,
    )


def _configuration(certificate: Certificate) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(certificate.key, certificate.chain)], root_certificates=certificate.client_authority
    )


class _Handlers(grpc.GenericRpcHandler):
    """Method name -> handler; what is not here is answered UNIMPLEMENTED by gRPC itself."""

    def __init__(
        self,
        ingest: Ingest,
        tokens: BearerTokens | None,
        tenants: SenderTenants,
        bounds: BodyBounds,
        connections: GrpcConnections,
    ) -> None:
        health = _Health(ingest, tokens)
        # As streams, of which one message is read: so a sender is known, and its time runs, before its request comes.
        self._handlers: dict[str, Any] = {
            method: grpc.stream_unary_rpc_method_handler(
                _Export(ingest, signal, tokens, tenants, bounds, connections).answer
            )
            for signal, method in EXPORT_METHODS.items()
        }
        self._handlers["/grpc.health.v1.Health/Check"] = grpc.unary_unary_rpc_method_handler(health.check)
        self._handlers["/grpc.health.v1.Health/Watch"] = grpc.unary_stream_rpc_method_handler(health.watch)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)


class _Export:
    """The Export method of one signal."""

    def __init__(
        self,
        ingest: Ingest,
        signal: Signal,
        tokens: BearerTokens | None,
        tenants: SenderTenants,
        bounds: BodyBounds,
        connections: GrpcConnections,
    ) -> None:
        self._connections = connections
        self._ingest = ingest
        self._signal = signal
        self._tokens = tokens
        self._tenants = tenants
        self._bounds = bounds

    async def answer(self, _requests: AsyncIterator[bytes], context: _Context) -> bytes:
        metadata = context.invocation_metadata() or ()
        admitted = _admitted(self._tokens, metadata, context.peer())
        if isinstance(admitted, Refused):
            await self._refuse(admitted, context)
        tenant = self._tenants.tenant_of(_sender(admitted, self._tenants, metadata, context))
        if isinstance(tenant, Refused):
            await self._refuse(tenant, context)
        received = await self._read_message(context)
        peer = context.peer()
        self._connections.works(peer)
        compression = _compression(received)
        body = Body(self._bounds, self._ingest.in_flight, compression, tenant)
        try:
            if compression:
                for start in range(0, len(received), _STEP_BYTES):
                    body.add(received[start : start + _STEP_BYTES])
                    await asyncio.sleep(0)  # it takes time that others have a part in
            else:
                body.add(received)
            request = body.finish()
            outcome = await self._ingest.accept(
                self._signal,
                request,
                Encoding.PROTOBUF,
                transport="grpc",
                tenant=tenant,
                own_loop=self._ingest.circle.comes_back(
                    self._signal, _value(metadata, INSTANCE_HEADER), _value(metadata, HEARD_HEADER)
                ),
                much_expanded=body.is_much_expanded,
            )
        except BodyRefusedError as error:
            await self._refuse(error.refused, context)
        finally:
            body.release()
            self._connections.answered(peer)
        if isinstance(outcome, Refused):
            await _abort(context, outcome)
        return export_response(self._signal, Encoding.PROTOBUF, outcome)

    async def _read_message(self, context: _Context) -> bytes:
        try:
            async with asyncio.timeout(self._bounds.within_s):
                # Not by iterating over `requests`: a generator left at its first message keeps it for a while.
                request = await context.read()
        except TimeoutError:
            await self._refuse(request_too_slow(self._bounds.within_s), context)
        return request if isinstance(request, bytes) else b""  # EOF: a call without a message is as an empty one

    async def _refuse(self, refused: Refused, context: _Context) -> NoReturn:
        await _abort(context, self._ingest.refuse(self._signal, "grpc", refused))


def _admitted(
    tokens: BearerTokens | None, metadata: Iterable[tuple[str, str | bytes]], peer: str
) -> Caller | Refused | None:
    """Who calls, or why the call is not taken; None where no token is asked for.

    `peer` is as gRPC names it, such as ``ipv4:127.0.0.1:50000``.
    """
    if tokens is None:
        return None
    return tokens.admitted(_value(metadata, "authorization"), "send", grpc_address(peer))


def _sender(
    caller: Caller | None, tenants: SenderTenants, metadata: Iterable[tuple[str, str | bytes]], context: _Context
) -> Sender:
    """The tenant's credentials; of the certificate only where it matters."""
    claimed = () if tenants.header is None else _values(metadata, tenants.header)
    address = grpc_address(context.peer()) if claimed else ""
    if not tenants.by_subject:
        return Sender(caller, claimed, address)
    known = context.auth_context()
    names = [name for key in ("x509_common_name", "x509_subject") for name in known.get(key, ())]
    return Sender(caller, claimed, address, [name.decode("utf-8", "replace") for name in names])


def _compression(message: bytes) -> Compression:
    """How `message` is compressed; gRPC says nothing of that to handlers.

    No OTLP request begins like either stream: its first byte is 0x0a.
    """
    if message.startswith(b"\x1f\x8b"):
        return "gzip"
    if message[:1] == b"\x78" and int.from_bytes(message[:2], "big") % 31 == 0:
        return "deflate"
    return ""


def _values(metadata: Iterable[tuple[str, str | bytes]], name: str) -> list[str]:
    return [value for key, value in metadata if key == name and isinstance(value, str)]


def _value(metadata: Iterable[tuple[str, str | bytes]], name: str) -> str | None:
    return next(iter(_values(metadata, name)), None)


async def _abort(context: _Context, refused: Refused) -> NoReturn:
    """End the call with a status; with a delay, in the two places where clients look for one."""
    if refused.retry_after_s is None:
        await context.abort(_FINAL_CODES.get(refused.reason, grpc.StatusCode.INTERNAL), refused.message)
    status, code = _RETRYABLE_CODES.get(refused.reason, (grpc.StatusCode.UNAVAILABLE, UNAVAILABLE))
    trailers = (
        ("grpc-status-details-bin", status_bytes(code, refused.message, refused.retry_after_s)),
        # OpenTelemetry's Python exporter reads the delay from this key alone.
        ("google.rpc.retryinfo-bin", retry_info_bytes(refused.retry_after_s)),
    )
    await context.abort(status, refused.message, trailing_metadata=trailers)


class _Health:
    """grpc.health.v1: serving until the receiver stops; with `tokens`, for those who show one."""

    def __init__(self, ingest: Ingest, tokens: BearerTokens | None) -> None:
        self._ingest = ingest
        self._tokens = tokens
        self._watching = 0

    async def check(self, request: bytes, context: _Context) -> bytes:
        await self._refuse_strangers(context)
        service = _service_name(request)
        if service not in _SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {service!r} here")
        return _NOT_SERVING if self._ingest.is_stopping else _SERVING

    async def watch(self, request: bytes, context: _Context) -> AsyncIterator[bytes]:
        await self._refuse_strangers(context)
        if self._watching >= _MOST_WATCHES:
            found = f"{_MOST_WATCHES} calls of Watch are open, the most there may be; use Check, or try again later"
            await _abort(context, Refused("overloaded", found, RETRY_AFTER_S))
        self._watching += 1
        try:
            known = _service_name(request) in _SERVICES
            if not self._ingest.is_stopping:
                yield _SERVING if known else _SERVICE_UNKNOWN
            while not self._ingest.is_stopping:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ingest.wait_stopping(), LOOK_EVERY_S)
                await self._refuse_strangers(context)  # a token may have been taken back
            if known:
                yield _NOT_SERVING
        finally:
            self._watching -= 1

    async def _refuse_strangers(self, context: _Context) -> None:
        admitted = _admitted(self._tokens, context.invocation_metadata() or (), context.peer())
        if isinstance(admitted, Refused):
            await _abort(context, admitted)


def _service_name(request: bytes) -> str | None:
    """HealthCheckRequest.service, None when the request cannot be read."""
    body = Body(_HEALTH_BOUNDS, InFlight(_HEALTH_BOUNDS.max_bytes), _compression(request))
    try:
        body.add(request)
        request = body.finish()
    except BodyRefusedError:
        return None
    try:
        # AnyValue's first field is a string as well.
        return AnyValue.FromString(request).string_value
    except DecodeError:
        return None
