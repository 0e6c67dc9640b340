"""A small sender beside forty noisy ones keeps its judgements, though the judge is far too slow for all of them."""

import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from reliability.conftest import Report
from reliability.load import order_trace
from reliability.table import Row

from build.otlp import payload
from build.served import TRACES, Server, served
from waiting import eventually

pytestmark = pytest.mark.long

NOISY, SECONDS = 40, 22.0
NOISY_EVERY_S = 0.32  # each of them 80 spans: 10,000 a second, and without a bound as many as the machine sends
SMALL_EVERY_S = 0.4  # four spans: ten a second
RUNS_S, STOPS_S = 0.15, 0.45  # the judge, in turns
KEPT = 0.95


def request_of(service: str, traces: range) -> bytes:
    request = ExportTraceServiceRequest.FromString(payload([span for n in traces for span in order_trace(n)]))
    for resource_spans in request.resource_spans:
        del resource_spans.resource.attributes[:]
        resource_spans.resource.attributes.add(key="service.name").value.string_value = service
    return request.SerializeToString()


class SlowJudge:
    """The judge has a processor now and then."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            os.kill(self._pid, signal.SIGSTOP)
            self._over.wait(STOPS_S)
            os.kill(self._pid, signal.SIGCONT)
            self._over.wait(RUNS_S)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def noise(server: Server, until_s: float, sent: list[int]) -> None:
    first = 1_000_000
    with grpc.insecure_channel(server.endpoints["grpc"]) as channel:
        export = channel.unary_unary(TRACES)
        while (begun_s := time.monotonic()) < until_s:
            for number in range(NOISY):
                try:
                    export(request_of(f"noisy-{number}", range(first, first + 20)))
                    sent.append(80)
                except grpc.RpcError:
                    time.sleep(0.05)
                first += 20
            time.sleep(max(0.0, begun_s + NOISY_EVERY_S - time.monotonic()))


def small(server: Server, until_s: float) -> int:
    trace = 1
    with grpc.insecure_channel(server.endpoints["grpc"]) as channel:
        export = channel.unary_unary(TRACES)
        while time.monotonic() < until_s:
            try:
                export(request_of("small", range(trace, trace + 1)))
                trace += 1
                time.sleep(SMALL_EVERY_S)
            except grpc.RpcError:  # it is asked to come again, and does
                time.sleep(0.05)
    return trace - 1


def judged(data: Path, service: str) -> int:
    with sqlite3.connect(f"file:{data / 'tracegrade.db'}?mode=ro", uri=True) as store:
        ((number,),) = store.execute("SELECT count(*) FROM traces WHERE service = ?", (service,))
    return int(number)


def test_a_small_sender_beside_forty_noisy_ones_keeps_its_judgements(tmp_path: Path, report: Report) -> None:
    journal = {"max_size_mib": 24, "segment_size_mib": 2, "sync": "interval"}
    with served(tmp_path, "--no-watchdog", journal=journal) as server:
        eventually(lambda: (server.data / "tracegrade.db").exists(), "the store")
        judge, until_s, noisy = SlowJudge(server.judge_pid), time.monotonic() + SECONDS, list[int]()
        sending = threading.Thread(target=noise, args=(server, until_s, noisy))
        sending.start()
        try:
            sent = small(server, until_s)
        finally:
            sending.join()
            judge.end()
        eventually(lambda: server.metric("tracegrade_spans_unread", "receive") == 0, "the judge to catch up", 60)
        eventually(lambda: server.metric("tracegrade_spans_open", "judge") == 0, "all traces to close", 60)
        lost = server.metric("tracegrade_spans_total", "receive", reason="judge_behind")
        left_out = server.metric("tracegrade_spans_total", "judge", reason="over_share")
        eventually(lambda: server.metric("tracegrade_sink_queue", "judge") == 0, "all results to be stored", 10)
        kept = judged(server.data, "small")
    seen = f"{sum(noisy):,} spans of noisy ones, {left_out:,.0f} left out; {kept} of {sent} of the small one judged"
    report(Row("a small sender beside forty noisy ones, the judge stopped most of the time", 1, int(lost), seen=seen))
    assert left_out > 0.2 * sum(noisy)
    assert kept >= KEPT * sent
