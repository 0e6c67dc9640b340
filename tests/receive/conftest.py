"""A receiver on loopback ports in a thread of its own, over a journal that does as the test says."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.access.settings import AccessSettings
from tracegrade.access.tokens import MadeTokens
from tracegrade.journal.record import Entry
from tracegrade.receive.ingest import Ingest
from tracegrade.receive.otlp_grpc import OtlpGrpcServer
from tracegrade.receive.otlp_http import OtlpHttpServer
from tracegrade.receive.settings import OtlpReceiverSettings
from tracegrade.receive.tenants import SenderTenants
from tracegrade.telemetry.metrics import Telemetry

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
INSTANCE_ID = "instance-under-test"


@dataclass
class FakeJournal:
    """Keeps entries.

    ``refuse_with`` is raised by every append, ``refuse_first`` by the first ones; ``fail_with`` is set on the future,
    and ``hold`` leaves it open.
    """

    entries: list[Entry] = field(default_factory=list)
    futures: list[Future[int]] = field(default_factory=list)
    appended: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    refuse_first: list[Exception] = field(default_factory=list)
    refuse_with: Exception | None = None
    fail_with: Exception | None = None
    hold: bool = False

    def append(self, entry: Entry) -> Future[int]:
        if self.refuse_first:
            raise self.refuse_first.pop(0)
        if self.refuse_with is not None:
            raise self.refuse_with
        future: Future[int] = Future()
        if self.fail_with is not None:
            future.set_exception(self.fail_with)
            return future
        self.entries.append(entry)
        self.futures.append(future)
        if not self.hold:
            future.set_result(len(self.entries))
        self.appended.release()
        return future


class Served:
    """A receiver with both protocols started; ``run`` runs a coroutine in its loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: OtlpReceiverSettings,
        journal: FakeJournal,
        made: MadeTokens | None,
        access: AccessSettings | None,
    ) -> None:
        protocols = settings.protocols
        assert protocols.grpc is not None
        assert protocols.http is not None
        self.loop = loop
        self.journal = journal
        self.telemetry = Telemetry("receive")
        self.ingest = Ingest(journal, self.telemetry, [INSTANCE_ID], settings)
        ratio, tenants = settings.max_compression_ratio, SenderTenants(access)
        self._servers = (
            OtlpGrpcServer(protocols.grpc, self.ingest, ratio, made, tenants),
            OtlpHttpServer(protocols.http, self.ingest, ratio, made, tenants),
        )

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self._servers[0].port}"

    @property
    def http_port(self) -> int:
        return self._servers[1].port

    async def start(self) -> None:
        for server in self._servers:
            await server.start()

    async def stop(self, grace_s: float) -> None:
        self.ingest.stop()
        await asyncio.gather(*(server.stop(grace_s) for server in self._servers))

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.submit(coroutine).result()

    def requests(self, **labels: str) -> float:
        return self.telemetry.value("tracegrade.receiver.requests", **labels)


def receiver_settings(grpc: dict[str, Any] | None = None, http: dict[str, Any] | None = None, **other: Any) -> Any:
    """Settings with both protocols on free ports."""
    protocols = {
        "grpc": {"endpoint": "127.0.0.1:0", **(grpc or {})},
        "http": {"endpoint": "127.0.0.1:0", **(http or {})},
    }
    return OtlpReceiverSettings.model_validate({"protocols": protocols, **other})


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    # One for all tests: grpc.aio wants to live in a single loop of its process.
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="session")
def stops(loop: asyncio.AbstractEventLoop) -> Iterator[list[Future[Any]]]:
    """Stops under way. uvicorn looks ten times a second whether it should stop: a next test does not wait for it."""
    stops: list[Future[Any]] = []
    yield stops
    for stop in stops:
        stop.result()


@pytest.fixture
def serve(loop: asyncio.AbstractEventLoop, stops: list[Future[Any]]) -> Iterator[Callable[..., Served]]:
    """``serve(grpc={...}, http={...}, **receiver settings)`` starts a receiver, stopped after the test."""
    started: list[Served] = []

    def start(
        grpc: dict[str, Any] | None = None,
        http: dict[str, Any] | None = None,
        journal: FakeJournal | None = None,
        made: MadeTokens | None = None,
        access: AccessSettings | None = None,
        **other: Any,
    ) -> Served:
        settings = receiver_settings(grpc, http, **other)

        async def begin() -> Served:
            served = Served(loop, settings, journal or FakeJournal(), made, access)
            started.append(served)
            await served.start()
            return served

        served: Served = asyncio.run_coroutine_threadsafe(begin(), loop).result()
        return served

    yield start
    stops += [served.submit(served.stop(0)) for served in started]


def exports_after_idle(served: "Served", wire: bytes) -> None:
    """Export once, wait until the server has closed the connection, and export again over the same channel.

    The channel is one of asyncio, since a thread of gRPC's watches the state of the other kind, and may find it closed.
    """

    async def export() -> None:
        async with grpc.aio.insecure_channel(served.grpc_address) as channel:
            call = channel.unary_unary(EXPORT)
            await call(wire)
            async with asyncio.timeout(600):
                while (state := channel.get_state()) is not grpc.ChannelConnectivity.IDLE:
                    await channel.wait_for_state_change(state)
            await call(wire)

    asyncio.run(export())


def until_closed(connection: socket.socket) -> bytes:
    """What the server says before it closes."""
    connection.settimeout(None)
    said = b""
    try:
        while part := connection.recv(65536):
            said += part
    except ConnectionResetError:
        pass
    return said


TRACE_ID = bytes(range(1, 17))
SPAN_ID = bytes(range(1, 9))


@pytest.fixture
def request_of() -> Callable[..., ExportTraceServiceRequest]:
    """``request_of((trace id, span id, parent id), ...)``: a trace request, each span in a scope with the others."""

    def build(*ids: tuple[bytes, bytes, bytes]) -> ExportTraceServiceRequest:
        request = ExportTraceServiceRequest()
        resource_spans = request.resource_spans.add()
        resource_spans.resource.attributes.add(key="service.name").value.string_value = "shop"
        scope_spans = resource_spans.scope_spans.add()
        for trace_id, span_id, parent_span_id in ids or ((TRACE_ID, SPAN_ID, b""),):
            scope_spans.spans.add(
                trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id, name="work", start_time_unix_nano=1
            )
        return request

    return build


@pytest.fixture
def wire(request_of: Callable[..., ExportTraceServiceRequest]) -> bytes:
    """A trace request with one good span."""
    return request_of().SerializeToString()


@pytest.fixture
def journal() -> FakeJournal:
    return FakeJournal()


class PeakMemory:
    """How far this process's resident memory rose above where it stood when this was made."""

    def __init__(self) -> None:
        # The peak of a process is for ever unless it is reset: 5 does that (proc(5), clear_refs).
        Path("/proc/self/clear_refs").write_text("5")
        self._start_mib = self._peak_mib()

    def growth_mib(self) -> float:
        return self._peak_mib() - self._start_mib

    def _peak_mib(self) -> float:
        status = Path("/proc/self/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024


@pytest.fixture
def peak_memory() -> Callable[[], PeakMemory]:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("needs Linux's /proc/self/clear_refs to measure memory")
    return PeakMemory
