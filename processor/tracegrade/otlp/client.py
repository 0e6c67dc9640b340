"""Our own small OTLP client: sends payloads unchanged, returns the result, and never retries by itself.

SDK exporters take SDK spans and give up after ten seconds. Originals must leave as the same bytes that came, and wait
in the journal for as long as it takes. Callers of this client retry (`tracegrade.otlp.retry`) and count.
"""

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from typing import Protocol

from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import Answer, Exports
from tracegrade.otlp.exporter_settings import ClientTls, ExporterSettings
from tracegrade.otlp.reloading import Reloading
from tracegrade.otlp.retry import RetrySettings
from tracegrade.semconv import INSTANCE_HEADER

__all__ = ["MAX_IN_FLIGHT", "Answer", "ClientTls", "ExporterSettings", "Exports", "OtlpClient", "RetrySettings"]

MAX_IN_FLIGHT = 10  # requests of one exporter under way at a time, as the collector's sending_queue.num_consumers


class OtlpClient:
    """One exporter's client, gRPC or HTTP by its settings. Make it, use it and close it in one event loop."""

    def __init__(
        self, settings: ExporterSettings, instance_id: str, heard: Callable[[Signal], str] = lambda signal: ""
    ) -> None:
        """Prepare the connection; nothing is sent yet.

        Args:
            settings: where to send and how.
            instance_id: names this instance in every request, so that it recognises one that comes back.
            heard: gives the instances whose requests of a signal were taken lately, so that a circle is noticed.

        Raises:
            TraceGradeError: a certificate or key file does not hold a certificate or key.
        """
        headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        headers |= {INSTANCE_HEADER: instance_id, "user-agent": f"tracegrade/{version('tracegrade')}"}
        self._heard = heard
        self._timeout_s = settings.timeout
        tls = settings.tls
        files = [path for path in (tls.ca_file, tls.cert_file, tls.key_file) if path is not None]
        what = f"exporter to {settings.endpoint}: tls"
        # New connections are made when their files change: the certificate of an open one cannot be exchanged.
        self._transport = Reloading(what, files, lambda: _transport(settings, headers))
        self._old: set[asyncio.Task[None]] = set()

    async def export(self, signal: Signal, payload: bytes) -> Answer:
        """Make one attempt to deliver `payload`, an OTLP export request of `signal`, unchanged.

        Raises nothing: every result is an `Answer`. When cancelled, it abandons the attempt.
        """
        try:
            return await self._latest().export(signal, payload, self._heard(signal))
        except Exception as error:  # no thread or memory left, or a bug below: the request is not at fault
            return Answer("retry", "client_error", message=repr(error))

    async def close(self) -> None:
        """Close the connections; exports under way are abandoned."""
        await asyncio.gather(*self._old, self._transport.value.close(0.0))

    def _latest(self) -> "_Transport":
        before = self._transport.value
        if self._transport.poll():
            closing = asyncio.create_task(before.close(self._timeout_s))
            self._old.add(closing)
            closing.add_done_callback(self._old.discard)
        return self._transport.value


class _Transport(Protocol):
    async def export(self, signal: Signal, payload: bytes, heard: str) -> Answer: ...

    async def close(self, grace_s: float) -> None: ...


def _transport(settings: ExporterSettings, headers: dict[str, str]) -> _Transport:
    # Imported when used: reading settings loads neither gRPC nor HTTP.
    if settings.protocol == "grpc":
        from tracegrade.otlp.grpc_client import GrpcClient

        settings.tls_context()  # gRPC would notice what is wrong only at its first call, and only log it
        return GrpcClient(settings, headers)
    from tracegrade.otlp.http_client import HttpClient

    return HttpClient(settings, headers, MAX_IN_FLIGHT)
