"""A disk that tears, flips, fills up, slows down; a clock that jumps; a process without file descriptors."""

import json
import os
import resource
import socket
import time
from collections.abc import Callable
from errno import EROFS
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import grpc
import pytest
from google.rpc.status_pb2 import Status
from reliability.conftest import Report
from reliability.load import TRACES_PER_REQUEST, request_of, send, wait_until_stored
from reliability.table import Row

from build.refused import refused
from build.served import TRACES, Server, export, served
from tracegrade.journal.disk import Disk
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Record
from tracegrade.journal.settings import JournalSettings
from tracegrade.model.signal import Signal
from waiting import eventually

pytestmark = pytest.mark.long

PAYLOADS = [b"first", b"second", b"third"]


def entry(payload: bytes) -> Entry:
    return Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 1, payload)


def records(folder: Path) -> list[Record]:
    reader = JournalReader(folder)
    try:
        found: list[Record] = []
        while some := reader.read(found[-1].end if found else 0):
            found += some
        return found
    finally:
        reader.close()


def write(folder: Path) -> tuple[list[int], Path, bytes]:
    """A journal of three records: their ends, its only segment and what that holds."""
    journal = LocalJournal.open(folder)
    ends = [journal.append(entry(payload)).result() for payload in PAYLOADS]
    journal.close()
    (segment,) = (folder / "segments").iterdir()
    return ends, segment, segment.read_bytes()


def test_a_record_torn_at_every_byte_by_a_kill_before_its_answer(tmp_path: Path, report: Report) -> None:
    ends, segment, whole = write(tmp_path)
    published = [path for path in tmp_path.iterdir() if path.is_file() and path.name != "lock"]
    lost = 0
    for length in range(ends[1], ends[2]):
        for path in published:  # the kill came before the end was published, and so before the answer
            path.unlink(missing_ok=True)
        segment.write_bytes(whole[:length])
        journal = LocalJournal.open(tmp_path)
        assert journal.recovery.torn_bytes == length - ends[1]
        journal.append(entry(b"again")).result()
        journal.close()
        lost += [record.payload for record in records(tmp_path)] != [b"first", b"second", b"again"]
    assert lost == 0
    report(Row("last record torn, at every byte", ends[2] - ends[1], lost, seen="the torn bytes are cut and counted"))


def test_every_bit_of_a_record_flipped(tmp_path: Path, report: Report) -> None:
    ends, segment, whole = write(tmp_path)
    times = 0
    for index in range(ends[0], ends[1]):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[index] ^= 1 << bit
            segment.write_bytes(damaged)
            assert [record.payload for record in records(tmp_path)] == [b"first", b"third"], (index, bit)
            times += 1
    journal = LocalJournal.open(tmp_path)
    (aside,) = journal.recovery.set_aside
    assert aside.read_bytes() == bytes(damaged[ends[0] : ends[1]])
    journal.close()
    assert [record.payload for record in records(tmp_path)] == [b"first", b"third"]
    report(Row("a bit flipped, each bit of a record", times, 0, seen="that record alone is set aside and counted"))


class OrderedDisk(Disk):
    """Notes what is done, and takes its time over a sync."""

    def __init__(self, sync_s: float = 0.0) -> None:
        self.done: list[str] = []
        self._sync_s = sync_s

    def write(self, fd: int, buffers: list[bytes], offset: int) -> None:
        super().write(fd, buffers, offset)
        self.done.append("write")

    def sync(self, fd: int) -> None:
        time.sleep(self._sync_s)
        super().sync(fd)
        self.done.append("fdatasync")


def test_written_then_synced_then_answered(tmp_path: Path, report: Report) -> None:
    disk = OrderedDisk()
    journal = LocalJournal.open(tmp_path, disk=disk)
    disk.done.clear()
    for number in range(200):
        journal.append(entry(b"%d" % number)).result()
        disk.done.append("answer")
    journal.close()
    assert disk.done[: 3 * 200] == ["write", "fdatasync", "answer"] * 200
    report(Row("order of write, fdatasync, answer", 200, 0, seen="recorded at the disk, always this one"))


def test_a_slow_fdatasync_slows_answers_and_loses_none(tmp_path: Path, report: Report) -> None:
    journal = LocalJournal.open(tmp_path, disk=OrderedDisk(sync_s=0.2))
    begun_s = time.monotonic()
    futures = [journal.append(entry(b"%d" % number)) for number in range(500)]
    ends = [future.result() for future in futures]
    took_s = time.monotonic() - begun_s
    journal.close()
    assert len(set(ends)) == len(records(tmp_path)) == 500
    assert took_s < 2.0, "what waits is one commit"
    report(Row("fdatasync takes 200 ms", 500, 0, 0, took_s, "500 requests at once are answered together"))


class ReadOnlyDisk(Disk):
    """A disk that its system has mounted read-only, while told so."""

    def __init__(self) -> None:
        self.is_read_only = False

    def write(self, fd: int, buffers: list[bytes], offset: int) -> None:
        if self.is_read_only:
            raise OSError(EROFS, os.strerror(EROFS))
        super().write(fd, buffers, offset)


def test_a_disk_that_became_read_only_is_refused_and_recovered_from(tmp_path: Path, report: Report) -> None:
    disk = ReadOnlyDisk()
    journal = LocalJournal.open(tmp_path, disk=disk)
    journal.append(entry(b"before")).result()
    disk.is_read_only = True
    for _ in range(20):
        with refused("journal_unavailable"):
            journal.append(entry(b"refused")).result()
    disk.is_read_only = False
    journal.append(entry(b"after")).result()
    journal.close()
    assert [record.payload for record in records(tmp_path)] == [b"before", b"after"]
    report(Row("disk read-only", 20, 0, seen="refused as unavailable, for which receivers answer: come back in 1 s"))


@pytest.mark.parametrize("jump_s", [-86_400, 86_400], ids=["back", "forward"])
def test_a_clock_that_jumps_a_day(tmp_path: Path, jump_s: int, report: Report) -> None:
    now_ns = [10**18]
    journal = LocalJournal.open(tmp_path, now_ns=lambda: now_ns[0])
    for number in range(20):
        if number == 10:
            now_ns[0] += jump_s * 10**9
        journal.append(entry(b"%d" % number)).result()
    journal.close()
    stamps = [record.received_ns for record in records(tmp_path)]
    assert len(stamps) == 20
    assert stamps == sorted(stamps)
    report(Row(f"clock set {'back' if jump_s < 0 else 'forward'} by a day", 1, 0, seen="receive times never decrease"))


def journal_bytes(server: Server) -> int:
    return max(path.stat().st_size for path in (server.data / "journal" / "segments").iterdir())


def health(server: Server) -> str:
    """What liveness says, which is 200 whatever it says."""
    with urlopen(f"http://{server.endpoints['telemetry']}/healthz") as response:
        status: str = json.load(response)["status"]
        return status


def is_ready(server: Server) -> bool:
    try:
        with urlopen(f"http://{server.endpoints['telemetry']}/readyz"):
            return True
    except HTTPError as error:
        with error:
            if error.code != 503 or json.load(error)["status"] != "refusing":
                raise
        return False


def until_answered(server: Server, request: bytes) -> float:
    """Seconds until `request` is answered OK."""
    begun_s = time.monotonic()

    def is_answered() -> bool:
        try:
            export(server.endpoints["grpc"], request, timeout_s=2)
        except grpc.RpcError:
            return False
        return True

    eventually(is_answered, "an answer", 30)
    return time.monotonic() - begun_s


def test_a_full_disk_is_refused_and_recovered_from(tmp_path: Path, report: Report) -> None:
    with served(tmp_path) as server:
        assert server.process is not None
        pid = server.process.pid
        answered = send(server, 10)
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        # No file may grow any more: to the one who writes it, a disk without room.
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (journal_bytes(server), hard))
        refused = 0
        for number in range(20):
            with pytest.raises(grpc.RpcError) as caught:
                export(server.endpoints["grpc"], request_of(range(1000 + number, 1001 + number)))
            error = caught.value
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            trailers = {key: value for key, value in error.trailing_metadata() or ()}
            assert Status.FromString(trailers["grpc-status-details-bin"]).details
            assert "google.rpc.retryinfo-bin" in trailers
            refused += 1
        assert health(server) == "refusing"
        assert not is_ready(server)
        assert server.metric("tracegrade_conditions", "receive", condition="disk_failing") == 1
        assert server.metric("tracegrade_receiver_requests_total", "receive", outcome="refused") == refused
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        took_s = until_answered(server, request_of(range(500, 500 + TRACES_PER_REQUEST)))
        more = send(server, 10, 600)
        wait_until_stored(server, [*answered, *range(500, 500 + TRACES_PER_REQUEST), *more])
        eventually(lambda: is_ready(server), "readiness")

        def lines() -> list[str]:
            return [line for line in server.log.splitlines() if "disk_failing" in line]

        # What the process writes to its log arrives by a pipe, later than its answers do.
        eventually(lambda: len(lines()) > 1, "the line that says that it is over")
        assert [" is over" in line for line in lines()] == [False, True], lines()
        report(Row("disk full", refused, 0, 0, took_s, "refused with both retry trailers; health and metrics answered"))


def test_no_file_descriptor_left(tmp_path: Path, report: Report) -> None:
    with served(tmp_path) as server:
        assert server.process is not None
        pid = server.process.pid
        with grpc.insecure_channel(server.endpoints["grpc"]) as channel:
            call = channel.unary_unary(TRACES)
            call(request_of(range(1, 6)))
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, hard))
            host, _, port = server.endpoints["http"].rpartition(":")
            waiting = [socket.create_connection((host, int(port))) for _ in range(20)]
            for begin in range(6, 56, TRACES_PER_REQUEST):
                call(request_of(range(begin, begin + TRACES_PER_REQUEST)))
            for connection in waiting:
                connection.close()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        took_s = until_answered(server, request_of(range(56, 61)))
        eventually(lambda: health(server) == "ok", "the health page")
        wait_until_stored(server, range(1, 61))
        report(Row("no file descriptor left", 20, 0, 0, took_s, "connections that are there are served on"))


def fill(folder: Path, size_mib: int, request: bytes, items: int) -> None:
    """A journal of so much, which no judge has read."""
    journal = LocalJournal.open(folder, JournalSettings(max_size_mib=4096))
    some = [Entry(Signal.TRACES, Encoding.PROTOBUF, "default", items, request)] * (4 * 1024 * 1024 // len(request))
    while journal.end < size_mib * 1024 * 1024:
        journal.append_all(some).result()
    journal.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("traces", [1, 200], ids=["many requests", "large requests"])
def test_a_start_over_a_long_journal_answers_soon(
    tmp_path: Path, is_full_size: bool, report: Report, traces: int
) -> None:
    size_mib = 1024 if is_full_size else 32
    server = Server(tmp_path, journal={"max_size_mib": 4096}, rules={"paths": []})
    fill(server.data / "journal", size_mib, request_of(range(1, 1 + traces)), 4 * traces)
    begun_s = time.monotonic()
    server.start()
    try:
        until_answered(server, request_of(range(1000, 1005)))
        took_s = time.monotonic() - begun_s
        unread: Callable[[], float] = lambda: server.metric("tracegrade_spans_unread", "receive")  # noqa: E731
        behind = eventually(unread, "what waits to be counted")
        begun_s = time.monotonic()
        eventually(lambda: unread() == 0, "the judge to catch up", 1800)
        rate = behind / (time.monotonic() - begun_s)
        assert took_s < (5.0 if is_full_size else 15.0)  # the bound holds on a quiet machine
        fault = f"start over {size_mib} MiB of unread journal, {4 * traces} spans a request"
        report(Row(fault, 1, 0, 0, took_s, f"then read at {rate:,.0f} spans/s"))
    finally:
        server.stop()
