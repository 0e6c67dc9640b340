"""The OTLP receiver: whichever of gRPC and HTTP the settings enable, started and stopped together."""

import asyncio

from tracegrade.receive.ingest import Ingest
from tracegrade.receive.otlp_grpc import OtlpGrpcServer
from tracegrade.receive.otlp_http import OtlpHttpServer
from tracegrade.receive.settings import OtlpReceiverSettings


class OtlpReceiver:
    """Serves OTLP in the running loop.

    ``grpc_port`` and ``http_port`` are the ports bound once started, None for a protocol that is not enabled.
    """

    def __init__(self, settings: OtlpReceiverSettings, ingest: Ingest) -> None:
        protocols = settings.protocols
        self._ingest = ingest
        self._grpc = OtlpGrpcServer(protocols.grpc, ingest) if protocols.grpc else None
        self._http = OtlpHttpServer(protocols.http, ingest) if protocols.http else None

    @property
    def grpc_port(self) -> int | None:
        """The port of OTLP/gRPC."""
        return self._grpc.port if self._grpc else None

    @property
    def http_port(self) -> int | None:
        """The port of OTLP/HTTP."""
        return self._http.port if self._http else None

    async def start(self) -> None:
        """Listen on all endpoints.

        Raises:
            ReceiverStartError: an address is taken, or a certificate cannot be used; nothing is left listening.
        """
        try:
            if self._grpc:
                await self._grpc.start()
            if self._http:
                await self._http.start()
        except BaseException:
            await self.stop(0)
            raise

    async def stop(self, grace_s: float) -> None:
        """Answer new requests "come back", finish those in work for at most `grace_s` seconds, stop listening.

        The journal must stay open until this returns.
        """
        self._ingest.stop()
        await asyncio.gather(*(server.stop(grace_s) for server in (self._grpc, self._http) if server))
