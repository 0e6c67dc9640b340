"""A downstream that fails in every way it can: nothing is lost but what it refuses for good, and that is counted."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from reliability.conftest import Report
from reliability.load import TRACES_PER_REQUEST, lost_and_doubled, request_of, resident_mib, send
from reliability.table import Row

from build.served import Downstream, Server, exporter, served
from waiting import eventually

pytestmark = pytest.mark.long

REQUESTS = 100
Trouble = Callable[[bytes, grpc.ServicerContext], bytes]


@contextmanager
def forwarding(folder: Path, trouble: Trouble | None = None) -> Iterator[tuple[Server, Downstream]]:
    downstream = Downstream()
    downstream.trouble = trouble
    try:
        with served(folder, exporters=exporter(downstream), rules={"paths": []}) as server:
            yield server, downstream
    finally:
        downstream.stop()


def counted(server: Server, name: str, exporter_name: str = "otlp", **labels: str) -> float:
    return server.metric(f"tracegrade_exporter_{name}", "receive", exporter=exporter_name, signal="traces", **labels)


def wait_until_finished(server: Server, within_s: float = 60.0) -> float:
    """Until every request was sent or given up; how long that took."""
    begun_s = time.monotonic()
    done = ("sent_requests_total", "failed_requests_total")
    eventually(lambda: sum(counted(server, name) for name in done) >= REQUESTS, "an empty queue", within_s)
    return time.monotonic() - begun_s


def test_down_for_long_and_back(tmp_path: Path, report: Report) -> None:
    up, down = Downstream(), Downstream()
    port = down.port
    down.stop()
    exporters = {"otlp/up": exporter(up)["otlp"], "otlp/down": exporter(down)["otlp"]}
    with served(tmp_path, exporters=exporters, rules={"paths": []}) as server:
        assert server.process is not None
        send(server, 5)
        before_mib = resident_mib(server.process.pid)
        traces = send(server, REQUESTS, 1000)
        eventually(lambda: lost_and_doubled(up, traces)[0] == 0, "the exporter that is up")
        queued = "tracegrade_exporter_queued_requests"
        eventually(lambda: server.metric(queued, "receive", exporter="otlp/down") == REQUESTS + 5, "the queue's size")
        grown_mib = resident_mib(server.process.pid) - before_mib
        assert grown_mib < 32
        begun_s = time.monotonic()
        down = Downstream(port)
        try:
            eventually(lambda: lost_and_doubled(down, traces)[0] == 0, "the exporter that was down")
            lost, doubled = lost_and_doubled(down, traces)
            seen = f"{REQUESTS} requests waited on disk, {grown_mib:+.0f} MiB of memory; the other exporter kept up"
            report(Row("downstream down, then back", 1, lost, doubled, time.monotonic() - begun_s, seen))
        finally:
            up.stop()
            down.stop()


def test_slow(tmp_path: Path, report: Report) -> None:
    def slow(request: bytes, context: grpc.ServicerContext) -> bytes:
        time.sleep(0.1)
        return b""

    with forwarding(tmp_path, slow) as (server, downstream):
        begun_s = time.monotonic()
        traces = send(server, REQUESTS)
        answered_s = time.monotonic() - begun_s
        took_s = wait_until_finished(server)
        lost, doubled = lost_and_doubled(downstream, traces)
        assert lost == 0
        seen = f"senders were answered in {answered_s / REQUESTS * 1e3:.0f} ms each"
        report(Row("downstream takes 100 ms a request", REQUESTS, lost, doubled, took_s, seen))


def test_refuses_for_ever(tmp_path: Path, report: Report) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "never")
        return b""

    with forwarding(tmp_path, refuse) as (server, _):
        send(server, REQUESTS)
        wait_until_finished(server)
        failed = counted(server, "failed_requests_total", reason="permission_denied")
        assert failed == REQUESTS
        assert counted(server, "queued_requests") == 0
        report(
            Row("downstream refuses for ever", REQUESTS, 0, seen=f"{failed:.0f} counted as failed: permission_denied")
        )


def test_one_poison_request(tmp_path: Path, report: Report) -> None:
    poison = request_of(range(11, 11 + TRACES_PER_REQUEST))

    def refuse_it(request: bytes, context: grpc.ServicerContext) -> bytes:
        if request == poison:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "poison")
        return b""

    with forwarding(tmp_path, refuse_it) as (server, downstream):
        traces = [trace for trace in send(server, REQUESTS) if trace not in range(11, 16)]
        wait_until_finished(server)
        lost, doubled = lost_and_doubled(downstream, traces)
        assert (lost, doubled) == (0, 0)
        assert counted(server, "failed_requests_total", reason="invalid_argument") == 1
        report(Row("one poison request", 1, lost, doubled, seen="1 counted as failed, the others arrived"))


def test_partial_success(tmp_path: Path, report: Report) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 1
    answer.partial_success.error_message = "one too many"

    with forwarding(tmp_path, lambda request, context: answer.SerializeToString()) as (server, downstream):
        traces = send(server, REQUESTS)
        wait_until_finished(server)
        lost, doubled = lost_and_doubled(downstream, traces)
        assert (lost, doubled) == (0, 0)
        assert counted(server, "rejected_items_total") == REQUESTS
        report(
            Row("downstream answers partial success", REQUESTS, lost, doubled, seen="1 span each counted as rejected")
        )


class CuttingProxy:
    """Passes bytes on, and cuts each of the first connections after so many of them, in the middle of a request."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        self.cuts = cuts
        self.done = 0
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                budget = self.cuts.pop(0) if self.cuts else None
                for source, target, limit in ((client, server, budget), (server, client, None)):
                    threading.Thread(target=self._copy, args=(source, target, limit), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, budget: int | None) -> None:
        with suppress(OSError), source, target:
            while part := source.recv(4096):
                if budget is not None and len(part) >= budget:
                    target.sendall(part[:budget])
                    self.done += 1
                    for end in (source, target):
                        end.shutdown(socket.SHUT_RDWR)
                    return
                budget = budget and budget - len(part)
                target.sendall(part)

    def stop(self) -> None:
        self._listener.close()


def test_gone_in_mid_request(tmp_path: Path, report: Report) -> None:
    downstream = Downstream()
    proxy = CuttingProxy(downstream.port, [3000 + 1371 * number for number in range(20)])
    through = exporter(downstream, endpoint=f"127.0.0.1:{proxy.port}")
    try:
        with served(tmp_path, exporters=through, rules={"paths": []}) as server:
            begun_s = time.monotonic()
            traces = send(server, REQUESTS)
            eventually(lambda: lost_and_doubled(downstream, traces)[0] == 0, "all requests downstream", 90)
            took_s = time.monotonic() - begun_s
            lost, doubled = lost_and_doubled(downstream, traces)
            assert proxy.done >= 3
            report(Row("connection cut in mid-request", proxy.done, lost, doubled, took_s))
    finally:
        proxy.stop()
        downstream.stop()
