"""Promises 1 and 4 under kill -9: no answered span lost downstream or in the store, no evaluation lost or doubled."""

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from end_to_end.server import LOGS, TRACES, Downstream, Server, alive, children, eventually, exporter
from reliability.conftest import Report
from reliability.load import SPANS_PER_TRACE, TRACES_PER_REQUEST, lost_and_doubled, request_of, stored
from reliability.table import Row
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.pipeline.heartbeat import read_heartbeat
from tracegrade.semconv import EVALUATION_EVENT

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
            request = request_of(traces)
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

    def wait_until_answered(self) -> None:
        """Until one more request is answered OK."""
        before = len(self.answered)
        eventually(lambda: len(self.answered) > before, "an answer")

    def stop(self) -> None:
        self._halt.set()
        self.join(30)


@pytest.mark.timeout(3600)
def test_nothing_answered_is_lost_and_nothing_is_doubled(tmp_path: Path, kills: int, report: Report) -> None:
    rng = random.Random(7)
    restarts_s: list[float] = []  # from each start of receive to its first OK
    downstream = Downstream()
    downstream.fail_every = 7
    server = Server(tmp_path, exporters=exporter(downstream))
    server.start()
    load = Load(server)
    load.start()
    try:
        for victim in rng.sample(["receive", "judge"] * kills, 2 * kills):
            wait_until_judging(server)
            time.sleep(rng.uniform(0.0, 0.6))  # the moment of the kill
            if victim == "receive":
                server.kill()
                begun_s = time.monotonic()
                server.start()
                load.wait_until_answered()
                restarts_s.append(time.monotonic() - begun_s)
            else:
                _kill_judge(server)
        load.stop()
        wait_until_judged(server, len(load.answered))
    finally:
        server.stop()
        downstream.stop()
    lost, doubled = lost_and_doubled(downstream, load.answered)
    assert lost == 0, f"{lost} answered spans never arrived downstream"
    check_stored(server, load.answered)
    _check_events(downstream, load.answered)
    seen = f"{len(load.answered):,} traces answered, each stored and judged once; spans sent again: {doubled}"
    report(Row("kill -9 of either role, under load", 2 * kills, lost, 0, max(restarts_s, default=0.0), seen))


def wait_until_judging(server: Server) -> None:
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


def wait_until_judged(server: Server, traces: int) -> None:
    eventually(lambda: len(stored(server)) >= traces, "all answered traces in the store", within_s=60)
    # The OTLP sink waits between attempts, as its peer refuses now and then; what it has not sent waits in the journal.
    reader, position = JournalReader(server.data / "results"), Position(server.data / "positions" / "results.otlp")
    eventually(lambda: (position.load() or 0) >= reader.durable().end, "the OTLP sink", within_s=90)
    reader.close()


def check_stored(server: Server, answered: list[int]) -> None:
    found = stored(server)
    assert set(answered) <= set(found), f"{len(set(answered) - set(found))} answered traces are not in the store"
    wrong = {trace: found[trace] for trace in answered if found[trace] != (SPANS_PER_TRACE, 4, 4)}
    assert not wrong, f"spans or evaluations missing or doubled: {dict(list(wrong.items())[:5])}"


def _check_events(downstream: Downstream, answered: list[int]) -> None:
    """Every evaluation was sent; one sent twice is the same by id and bytes, and of one revision."""
    by_id: dict[str, set[bytes]] = {}
    traces: Counter[int] = Counter()
    for request in downstream.requests[LOGS]:
        for rl in ExportLogsServiceRequest.FromString(request).resource_logs:
            for scope in rl.scope_logs:
                for record in scope.log_records:
                    if record.event_name != EVALUATION_EVENT:
                        continue  # of an alert
                    ids = [p.value.string_value for p in record.attributes if p.key == "tracegrade.evaluation.id"]
                    if ids[0] not in by_id:
                        traces[int.from_bytes(record.trace_id, "big")] += 1
                    by_id.setdefault(ids[0], set()).add(record.SerializeToString(deterministic=True))
    assert all(len(contents) == 1 for contents in by_id.values()), "one id was sent with two contents"
    missing = [trace for trace in answered if traces[trace] < 4]
    assert not missing, f"{len(missing)} traces lack evaluations downstream"
