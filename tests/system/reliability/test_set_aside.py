"""A request that ends the judge: set aside after two deaths, the others are judged, and it can be read again."""

import json
import time
from pathlib import Path

import pytest
from reliability.conftest import Report
from reliability.load import order_trace, request_of, stored, wait_until_stored
from reliability.table import Row

from build.served import Downstream, Server, exporter
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.model.signal import Signal
from waiting import eventually

pytestmark = pytest.mark.long

# One good trace, then 10 million empty messages, which take a Python loop far longer than the judge is given.
ENDLESS = request_of([666]) + b"\x0a\x00" * 10_000_000


def plant(folder: Path, *requests: bytes) -> None:
    """Put requests of one trace each into the journal, as a receiver that lets them in does."""
    journal = LocalJournal.open(folder)
    for request in requests:
        journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", len(order_trace(1)), request)).result()
    journal.close()


def test_a_request_that_hangs_the_judge_is_set_aside_whoever_is_killed_in_between(
    tmp_path: Path, report: Report
) -> None:
    downstream = Downstream()
    server = Server(tmp_path, exporters=exporter(downstream), judge={"hang_timeout": "2s"})
    good = [request_of([trace]) for trace in range(1, 6)]
    plant(server.data / "journal", *good[:2], ENDLESS, *good[2:])
    begun_s = time.monotonic()
    server.start()
    eventually(lambda: "if it happens again" in server.log, "the first death", 60)
    server.kill()  # the count outlives a kill of everything, which may be the second
    server.start()
    eventually(lambda: "and is set aside" in server.log, "the second death", 60)
    took_s = time.monotonic() - begun_s
    wait_until_stored(server, range(1, 6))
    assert 666 not in stored(server)

    # Named everywhere, counted once, passed on.
    def dropped() -> float:
        return server.metric("tracegrade_spans_total", "judge", fate="dropped", reason="set_aside")

    eventually(lambda: dropped() == len(order_trace(1)), "its spans to be counted")
    eventually(lambda: server.metric("tracegrade_conditions", "receive", condition="record_set_aside"), "the condition")
    shown = server.cli("set-aside", "list", "--format", "json", "-c", str(server.config)).stdout
    (listed,) = map(json.loads, shown.splitlines())
    assert (listed["items"], listed["reason"]) in [(4, "hung"), (4, "ended with its keeper")]
    doctor = server.cli("doctor", "-c", str(server.config), "--format", "json").stdout
    assert f'"where":"{listed["position"]}"' in doctor
    eventually(lambda: any(ENDLESS[:500] == request[:500] for request in _sent(downstream)), "the request downstream")

    # Replay passes over it, too.
    assert server.canonical("replay", "--rules", "builtin:demo") == server.canonical("results", "list")

    # Read again, it ends the judge again, and is set aside at its new place.
    again = server.cli("set-aside", "retry", str(listed["position"]), "-c", str(server.config))
    assert again.stdout == "1 record and 0 traces no longer set aside.\n", again.stderr

    def relisted() -> str:
        found = server.cli("set-aside", "list", "--format", "json", "-c", str(server.config)).stdout
        return found if found and json.loads(found)["position"] > listed["position"] else ""

    eventually(relisted, "the record to be set aside again", 60, 0.5)
    server.stop()
    sent = [request for request in _sent(downstream) if request[:500] == ENDLESS[:500]]
    assert len(sent) == 1, "it was forwarded when it came"
    downstream.stop()
    report(Row("a request that hangs the judge", 2, 0, 0, took_s, "set aside after two deaths, all others judged"))


def _sent(downstream: Downstream) -> list[bytes]:
    return [request for requests in downstream.requests.values() for request in requests]
