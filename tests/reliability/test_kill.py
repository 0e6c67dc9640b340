"""Promises 1 and 4 under kill -9: no answered span lost downstream or in the store, no evaluation lost or doubled."""

import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from end_to_end.server import LOGS, TRACES, Downstream, Server, alive, children, eventually, exporter
from pipeline.harness import agent_span, payload, tool_span
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.pipeline.heartbeat import read_heartbeat

SPANS_PER_TRACE = 4
TRACES_PER_REQUEST = 5
REQUESTS_PER_S = 40  # 800 spans a second


class Load(threading.Thread):
    """Sends fresh traces until stopped, each request again until it is answered, as a client must."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.answered: list[int] = []
        self._server = server
        self._halt = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._halt.wait(1 / REQUESTS_PER_S):
            traces = range(number + 1, number + 1 + TRACES_PER_REQUEST)
            number += TRACES_PER_REQUEST
            request = payload([span for trace in traces for span in order_trace(trace)])
            while not self._send(request):
                if self._halt.wait(0.05):
                    return
            self.answered += traces

    def _send(self, request: bytes) -> bool:
        try:
            with grpc.insecure_channel(self._server.endpoints["grpc"]) as channel:
                channel.unary_unary(TRACES)(request, timeout=2)
        except grpc.RpcError:
            return False
        return True

    def stop(self) -> None:
        self._halt.set()
        self.join(30)


def order_trace(trace: int) -> list[object]:
    first = trace * 10
    return [
        agent_span(trace, first),
        tool_span(trace, first + 1, first, "validate_user", '{"user_id": 123}'),
        tool_span(trace, first + 2, first, "check_inventory", '{"sku": "A-1", "qty": 2}'),
        tool_span(trace, first + 3, first, "create_order", '{"user_id": 123, "sku": "A-1", "qty": 2}'),
    ]


@pytest.mark.timeout(280)
def test_nothing_answered_is_lost_and_nothing_is_doubled(tmp_path: Path, kills: int) -> None:
    rng = random.Random(7)
    downstream = Downstream()
    downstream.fail_every = 7
    server = Server(tmp_path, exporters=exporter(downstream))
    server.start()
    load = Load(server)
    load.start()
    try:
        for victim in rng.sample(["receive", "judge"] * kills, 2 * kills):
            _wait_until_judging(server)
            time.sleep(rng.uniform(0.0, 0.6))  # the moment of the kill
            if victim == "receive":
                server.kill()
                server.start()
            else:
                _kill_judge(server)
        load.stop()
        _wait_until_judged(server, len(load.answered))
    finally:
        server.stop()
        downstream.stop()
    print(f"\n{2 * kills} kills, {len(load.answered)} traces answered")
    _check_forwarded(downstream, load.answered)
    _check_stored(server, load.answered)
    _check_events(downstream, load.answered)


def _wait_until_judging(server: Server) -> None:
    """Until this judge has read on: one that is killed while it starts cannot lose anything."""

    def position() -> int:
        beat = read_heartbeat(server.data / "judge.heartbeat")
        return beat.position if beat is not None else 0

    eventually(lambda: server.judge_pid and position(), "the judge to read")
    begun = position()
    eventually(lambda: position() > begun, "the judge to read on")


def _kill_judge(server: Server) -> None:
    judge = server.judge_pid
    os.kill(judge, signal.SIGKILL)
    eventually(lambda: not alive(judge), "the judge to be gone")
    assert server.process is not None
    eventually(lambda: [c for c in children(server.process.pid) if c != judge], "another judge")


def _wait_until_judged(server: Server, traces: int) -> None:
    def stored() -> bool:
        try:
            with sqlite3.connect(f"file:{server.data}/tracegrade.db?mode=ro", uri=True) as store:
                (count,) = store.execute("SELECT count(*) FROM traces").fetchone()
        except sqlite3.OperationalError:
            return False
        return count >= traces

    eventually(stored, "all answered traces in the store", within_s=60)
    # The OTLP sink waits between attempts, as its peer refuses now and then; what it has not sent waits in the journal.
    reader, position = JournalReader(server.data / "results"), Position(server.data / "positions" / "results.otlp")
    eventually(lambda: (position.load() or 0) >= reader.durable().end, "the OTLP sink", within_s=90)
    reader.close()


def _check_forwarded(downstream: Downstream, answered: list[int]) -> None:
    arrived = Counter(
        (int.from_bytes(span.trace_id, "big"), span.span_id)
        for request in downstream.requests[TRACES]
        for rs in ExportTraceServiceRequest.FromString(request).resource_spans
        for scope in rs.scope_spans
        if scope.scope.name != "tracegrade"
        for span in scope.spans
    )
    missing = [t for t in answered for s in order_trace(t) if (t, s.span_id) not in arrived]
    assert not missing, f"{len(missing)} answered spans never arrived downstream"


def _check_stored(server: Server, answered: list[int]) -> None:
    with sqlite3.connect(f"file:{server.data}/tracegrade.db?mode=ro", uri=True) as store:
        rows = store.execute(
            "SELECT t.trace_id, t.span_count, count(*), count(DISTINCT e.place) FROM traces t "
            "JOIN evaluations e ON e.trace = t.number GROUP BY t.number"
        ).fetchall()
    stored = {int.from_bytes(trace_id, "big"): counts for trace_id, *counts in rows}
    assert set(answered) <= set(stored), f"{len(set(answered) - set(stored))} answered traces are not in the store"
    wrong = {trace: stored[trace] for trace in answered if stored[trace] != [SPANS_PER_TRACE, 4, 4]}
    assert not wrong, f"spans or evaluations missing or doubled: {dict(list(wrong.items())[:5])}"


def _check_events(downstream: Downstream, answered: list[int]) -> None:
    """Every evaluation was sent; one sent twice is the same by id and bytes, and of one revision."""
    by_id: dict[str, set[bytes]] = {}
    traces: Counter[int] = Counter()
    for request in downstream.requests[LOGS]:
        for rl in ExportLogsServiceRequest.FromString(request).resource_logs:
            for scope in rl.scope_logs:
                for record in scope.log_records:
                    ids = [p.value.string_value for p in record.attributes if p.key == "tracegrade.evaluation.id"]
                    if ids[0] not in by_id:
                        traces[int.from_bytes(record.trace_id, "big")] += 1
                    by_id.setdefault(ids[0], set()).add(record.SerializeToString(deterministic=True))
    assert all(len(contents) == 1 for contents in by_id.values()), "one id was sent with two contents"
    missing = [trace for trace in answered if traces[trace] < 4]
    assert not missing, f"{len(missing)} traces lack evaluations downstream"
