"""Promises 1 and 4 under kill -9: no answered span lost downstream or in the store, no evaluation lost or doubled."""

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from reliability.conftest import Report
from reliability.load import SPANS_PER_TRACE, TRACES_PER_REQUEST, count_stored, lost_and_doubled, request_of, stored
from reliability.table import Row

from build.served import LOGS, TRACES, Downstream, Server, alive, children, exporter
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.pipeline.heartbeat import read_heartbeat
from tracegrade.semconv import EVALUATION_EVENT
from waiting import eventually

ONCE_PER_S = 10  # requests, of 20 spans each, where each role is killed once: no more than the kill needs
REQUESTS_PER_S = 40
FULL_SIZE_PER_S = 100
LONGEST_S = 60 * 60.0


class Load(threading.Thread):
    """Sends fresh traces until stopped, each request again until it is answered, as a client must."""

    def __init__(self, server: Server, requests_per_s: float = REQUESTS_PER_S) -> None:
        super().__init__(daemon=True)
        self.answered: list[int] = []
        self._server = server
        self._pause_s = 1 / requests_per_s
        self._channel: tuple[str, grpc.Channel] | None = None
        self._halt = threading.Event()

    def run(self) -> None:
        number = 0
        next_s = time.monotonic()
        while not self._halt.wait(next_s - time.monotonic()):
            next_s = max(next_s, time.monotonic() - 1.0) + self._pause_s  # catches up with a second, not with a restart
            traces = range(number + 1, number + 1 + TRACES_PER_REQUEST)
            number += TRACES_PER_REQUEST
            request = request_of(traces)
            while not self._send(request):
                if self._halt.wait(0.05):
                    return
            self.answered += traces

    def _send(self, request: bytes) -> bool:
        endpoint = self._server.endpoints["grpc"]  # of a port of its own after each start
        if self._channel is None or self._channel[0] != endpoint:
            self._close()
            self._channel = endpoint, grpc.insecure_channel(endpoint)
        try:
            self._channel[1].unary_unary(TRACES)(request, timeout=2)
        except grpc.RpcError:
            return False
        return True

    def _close(self) -> None:
        if self._channel is not None:
            self._channel[1].close()

    def wait_until_answered(self) -> None:
        """Until one more request is answered OK."""
        before = len(self.answered)
        eventually(lambda: len(self.answered) > before, "an answer")

    def stop(self) -> None:
        self._halt.set()
        self.join()
        self._close()


@pytest.mark.timeout(5400)
def test_nothing_answered_is_lost_and_nothing_is_doubled(
    tmp_path: Path, kills: int, is_full_size: bool, report: Report
) -> None:
    rng = random.Random(7)
    restarts_s: list[float] = []  # from each start of receive to its first OK
    downstream = Downstream()
    downstream.fail_every = 7
    server = Server(tmp_path, exporters=exporter(downstream))
    server.start()
    load = Load(server, FULL_SIZE_PER_S if is_full_size else REQUESTS_PER_S if kills > 1 else ONCE_PER_S)
    load.start()
    ends_s = time.monotonic() + LONGEST_S
    times = 0
    try:
        for victim in rng.sample(["receive", "judge"] * kills, 2 * kills):
            if time.monotonic() > ends_s:
                break
            times += 1
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
    report(Row("kill -9 of either role, under load", times, lost, 0, max(restarts_s, default=0.0), seen))


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
    # A judge that was killed again and again may be far behind: as long as it gets on, it is waited for.
    found = -1
    while (more := count_stored(server)) < traces:
        assert more > found, f"{more} of {traces} answered traces in the store, and no more for a minute"
        found = more
        with suppress(AssertionError):
            eventually(lambda: count_stored(server) >= traces, "all answered traces in the store", 60, every_s=1.0)
    # The OTLP sink waits between attempts, as its peer refuses now and then; what it has not sent waits in the journal.
    reader, position = JournalReader(server.data / "results"), Position(server.data / "positions" / "results.otlp")
    eventually(lambda: (position.load() or 0) >= reader.durable().end, "the OTLP sink")
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
                    if not ids:
                        continue  # an alert's
                    if ids[0] not in by_id:
                        traces[int.from_bytes(record.trace_id, "big")] += 1
                    by_id.setdefault(ids[0], set()).add(record.SerializeToString(deterministic=True))
    assert all(len(contents) == 1 for contents in by_id.values()), "one id was sent with two contents"
    missing = [trace for trace in answered if traces[trace] < 4]
    assert not missing, f"{len(missing)} traces lack evaluations downstream"
