"""OTLP/gRPC out: the payload's own bytes through ``grpc.aio``, one channel an exporter."""

import ssl
from pathlib import Path

import grpc
from grpc.aio import AioRpcError, Channel, Metadata, UnaryUnaryMultiCallable

from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import Answer, grpc_failure, success
from tracegrade.otlp.exporter_settings import ClientTls, ExporterSettings
from tracegrade.semconv import HEARD_HEADER

_METHODS = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    Signal.METRICS: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
_STATUS_DETAILS = "grpc-status-details-bin"
_MAX_ANSWER_BYTES = 4 * 1024 * 1024


class GrpcClient:
    """One channel to one peer; any number of calls at a time."""

    def __init__(self, settings: ExporterSettings, headers: dict[str, str]) -> None:
        self._timeout_s = settings.timeout
        self._metadata = Metadata(*((name, value) for name, value in headers.items() if name != "user-agent"))
        self._channel = _channel(settings, headers["user-agent"])
        # No (de)serialiser: bytes in, bytes out.
        self._calls: dict[Signal, UnaryUnaryMultiCallable[bytes, bytes]] = {
            signal: self._channel.unary_unary(method) for signal, method in _METHODS.items()
        }

    async def export(self, signal: Signal, payload: bytes, heard: str) -> Answer:
        """Make one attempt; `heard` is for `HEARD_HEADER`, "" for none."""
        metadata = Metadata(*self._metadata, (HEARD_HEADER, heard)) if heard else self._metadata
        try:
            body = await self._calls[signal](payload, timeout=self._timeout_s, metadata=metadata)
        except AioRpcError as error:
            return grpc_failure(error.code().name.lower(), error.details() or "", _status_details(error))
        return success(signal, body)

    async def close(self, grace_s: float) -> None:
        """Close the channel; calls under way are cancelled after `grace_s` seconds."""
        await self._channel.close(grace_s or None)


def _channel(settings: ExporterSettings, user_agent: str) -> Channel:
    options: list[tuple[str, str | int]] = [
        ("grpc.primary_user_agent", user_agent),
        ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_retries", 0),  # the caller retries: it counts attempts and keeps to the server's delay
        # To find a peer soon after it is back: by default, gRPC waits up to two minutes between connection attempts.
        ("grpc.initial_reconnect_backoff_ms", 500),
        ("grpc.min_reconnect_backoff_ms", 500),
        ("grpc.max_reconnect_backoff_ms", 5000),
        ("grpc.use_local_subchannel_pool", 1),  # exporters with different TLS settings never share a connection
    ]
    compression = grpc.Compression.Gzip if settings.compresses else grpc.Compression.NoCompression
    if settings.tls.insecure:
        return grpc.aio.insecure_channel(settings.endpoint, options=options, compression=compression)
    if settings.tls.server_name_override:
        options.append(("grpc.ssl_target_name_override", settings.tls.server_name_override))
    return grpc.aio.secure_channel(
        settings.endpoint, _credentials(settings.tls), options=options, compression=compression
    )


def _credentials(tls: ClientTls) -> grpc.ChannelCredentials:
    # gRPC brings its own list of authorities; the system's list, where there is one, also has those the operator added.
    authorities = tls.ca_file or ssl.get_default_verify_paths().cafile
    return grpc.ssl_channel_credentials(
        root_certificates=Path(authorities).read_bytes() if authorities else None,
        private_key=Path(tls.key_file).read_bytes() if tls.key_file else None,
        certificate_chain=Path(tls.cert_file).read_bytes() if tls.cert_file else None,
    )


def _status_details(error: AioRpcError) -> bytes | None:
    for key, value in error.trailing_metadata() or ():
        if key == _STATUS_DETAILS:
            return value if isinstance(value, bytes) else value.encode()
    return None
