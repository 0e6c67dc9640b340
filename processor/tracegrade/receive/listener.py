"""A receiver for one program under test: OTLP on one port, in a thread of its own, without a journal."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack
from threading import Thread
from types import TracebackType
from typing import Self

from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.record import Entry
from tracegrade.model.signal import Signal
from tracegrade.receive.ingest import Ingest
from tracegrade.receive.otlp_grpc import OtlpGrpcServer
from tracegrade.receive.otlp_http import OtlpHttpServer
from tracegrade.receive.settings import GrpcSettings, HttpSettings, OtlpReceiverSettings, split_endpoint
from tracegrade.receive.shared_port import FREE_PORT, SharedPort
from tracegrade.telemetry.metrics import Telemetry

Take = Callable[[Signal, bytes], None]

_REQUESTS = "tracegrade.receiver.requests"
_REJECTED = "tracegrade.receiver.rejected_spans"
_GRACE_S = 2.0
_STOPPED_WITHIN_S = 10.0


class Listener:
    """Receives while it is entered; gRPC and HTTP, protobuf and JSON, share one port.

    Each accepted request is given to `take` as protobuf, in the listener's thread, before it is answered. An `OSError`
    of `take` refuses the request, and its sender tries again.
    """

    def __init__(self, take: Take, listen: str = FREE_PORT) -> None:
        """Listen on nothing yet; `listen` is HOST:PORT, and 0 a free port."""
        self.port = 0
        self._listen = listen
        self._take = take
        self._telemetry = Telemetry("receive")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = Thread(target=self._run, name="tracegrade-listener", daemon=True)
        self._started: Future[None] = Future()

    @property
    def endpoint(self) -> str:
        """What ``OTEL_EXPORTER_OTLP_ENDPOINT`` takes."""
        host, _ = split_endpoint(self._listen)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def refused(self) -> dict[str, int]:
        """Count requests refused and spans rejected since the start, by reason."""
        numbers = self._telemetry.snapshot()["metrics"]
        found = [
            *(item for item in numbers.get(_REQUESTS, ()) if item["labels"]["outcome"] == "refused"),
            *numbers.get(_REJECTED, ()),
        ]
        return {item["labels"]["reason"]: int(item["value"]) for item in found}

    def __enter__(self) -> Self:
        """Raises `TraceGradeError` when nothing can listen there."""
        self._thread.start()
        self._started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop; requests that have come are taken first."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_STOPPED_WITHIN_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        otlp = OtlpReceiverSettings()
        ingest = Ingest(self, self._telemetry, [""], otlp)
        async with AsyncExitStack() as stack:
            grpc_server = OtlpGrpcServer(GrpcSettings(endpoint=FREE_PORT), ingest, otlp.max_compression_ratio)
            await grpc_server.start()
            stack.push_async_callback(grpc_server.stop, _GRACE_S)
            http_server = OtlpHttpServer(HttpSettings(endpoint=FREE_PORT), ingest, otlp.max_compression_ratio)
            await http_server.start()
            stack.push_async_callback(http_server.stop, _GRACE_S)
            shared = SharedPort(self._listen)
            await shared.start(grpc_server.port, http_server.port)
            stack.push_async_callback(shared.stop, _GRACE_S)
            self.port = shared.port
            self._started.set_result(None)
            await self._stop.wait()

    def append(self, entry: Entry) -> Future[int]:
        """Take the request, as a journal does; there is nothing to wait for."""
        done: Future[int] = Future()
        try:
            self._take(entry.signal, entry.payload)
        except OSError as error:
            done.set_exception(JournalRefused("journal_unavailable", str(error)))
        else:
            done.set_result(0)
        return done
