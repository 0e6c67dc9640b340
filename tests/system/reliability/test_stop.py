"""SIGTERM while senders send and the peer downstream hangs: in order, within its deadline, and nothing is lost."""

import threading
import time
from pathlib import Path

import grpc
import pytest
from reliability.conftest import Report
from reliability.load import lost_and_doubled
from reliability.table import Row
from reliability.test_kill import Load, check_stored, wait_until_judged, wait_until_judging

from build.served import Downstream, Server, exporter
from waiting import eventually

pytestmark = pytest.mark.long

# Forwarding has 5 s for what is under way, then the judge's sinks have, then the servers; and a busy machine.
STOPS_WITHIN_S = 25.0


def test_an_orderly_stop_answers_what_is_in_work_and_leaves_the_rest_on_disk(tmp_path: Path, report: Report) -> None:
    downstream, goes_on = Downstream(), threading.Event()

    def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
        goes_on.wait()
        return b""

    server = Server(tmp_path, exporters=exporter(downstream))
    server.start()
    load = Load(server)
    load.start()
    try:
        wait_until_judging(server)
        downstream.trouble = hang
        load.wait_until_answered()
        begun_s = time.monotonic()
        assert server.stop() == 0
        stopped_s = time.monotonic() - begun_s
        assert "Traceback" not in server.log
        goes_on.set()
        server.start()
        load.wait_until_answered()
        load.stop()
        wait_until_judged(server, len(load.answered))
        eventually(lambda: lost_and_doubled(downstream, load.answered)[0] == 0, "what was left on disk, downstream", 60)
    finally:
        goes_on.set()
        server.stop()
        downstream.stop()
    lost, doubled = lost_and_doubled(downstream, load.answered)
    check_stored(server, load.answered)
    assert stopped_s < STOPS_WITHIN_S
    seen = f"stopped in {stopped_s:.1f} s; {len(load.answered):,} traces answered; spans sent again: {doubled}"
    report(Row("SIGTERM under load, while downstream hangs", 1, lost, 0, seen=seen))
