import asyncio
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from errno import EDQUOT, EIO, ENOSPC
from pathlib import Path
from typing import Any

import pytest
from tests.journal.conftest import SIZE, FailingDisk, FakeClock, Opener, entry, payloads, read_all

from build.refused import refused
from tracegrade.journal.disk import Disk
from tracegrade.journal.errors import JournalLocked
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.published import Durable
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Entry
from tracegrade.journal.segments import segment_path
from tracegrade.journal.settings import JournalSettings
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually


class WatchingDisk(Disk):
    """Notes each call with what readers see at that moment."""

    def __init__(self) -> None:
        self.reader: JournalReader | None = None
        self.calls: list[tuple[str, int]] = []
        self.seen: list[Durable] = []

    def note(self, what: str) -> None:
        if self.reader is not None:
            self.seen.append(self.reader.durable())
            self.calls.append((what, self.seen[-1].end))

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        super().write(fd, buffers, offset)
        self.note("written")

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.note("synced")


class GatedDisk(Disk):
    """Holds the first write until told to go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.syncs = 0

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        self.reached.set()
        assert self.go_on.wait()
        super().write(fd, buffers, offset)

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


def test_order_is_write_then_sync_then_publish_then_answer(opener: Opener) -> None:
    disk = WatchingDisk()
    journal = opener(disk=disk)
    disk.reader = opener.reader()
    future = journal.append(entry())
    future.add_done_callback(lambda _: disk.note("answered"))
    end = future.result()
    eventually(lambda: len(disk.calls) == 3)
    assert disk.calls == [("written", 0), ("synced", 0), ("answered", end)]


def test_what_was_answered_is_read_in_order(opener: Opener) -> None:
    journal = opener()
    ends = [future.result() for future in [journal.append(entry(b"%d" % i)) for i in range(20)]]
    records = read_all(opener.reader())
    assert [record.payload for record in records] == [b"%d" % i for i in range(20)]
    assert [record.end for record in records] == ends
    assert [record.position for record in records] == [0, *ends[:-1]]


def test_records_never_cross_from_one_segment_into_the_next(opener: Opener) -> None:
    journal = opener()
    for _ in range(7):
        journal.append(entry(bytes(SIZE))).result()
    assert sorted(path.stat().st_size for path in (opener.folder / "segments").iterdir()) == [200, 400, 400, 400]


def test_a_record_larger_than_a_segment_has_its_own(opener: Opener) -> None:
    journal = opener()
    for payload in (b"small", bytes(2000), b"after"):
        journal.append(entry(payload)).result()
    assert payloads(opener.folder) == [b"small", bytes(2000), b"after"]
    assert len(list((opener.folder / "segments").iterdir())) == 3


def test_entries_appended_together_are_durable_together(opener: Opener) -> None:
    disk = WatchingDisk()
    journal = opener(disk=disk)
    disk.reader = opener.reader()
    end = journal.append_all([entry(bytes([i]) * SIZE) for i in range(6)]).result()
    assert end == 6 * 200
    assert [call for call in disk.calls if call[0] == "synced"] == [("synced", 0)]
    assert len(payloads(opener.folder)) == 6


def test_everything_that_waits_is_one_commit(opener: Opener) -> None:
    disk = GatedDisk()
    journal = opener(JournalSettings(), disk=disk)
    first = journal.append(entry())
    assert disk.reached.wait()
    rest = [journal.append(entry()) for _ in range(100)]
    syncs = disk.syncs
    disk.go_on.set()
    rest[-1].result()
    assert first.done()
    assert disk.syncs - syncs == 2
    assert journal.telemetry.value("tracegrade.journal.commits") == 2


def test_coroutines_are_answered_with_one_wake_up_of_the_loop_for_each_commit(opener: Opener) -> None:
    disk = GatedDisk()
    journal = opener(JournalSettings(), disk=disk)

    async def append_many() -> tuple[list[int], int]:
        loop = asyncio.get_running_loop()
        woken = 0
        original = loop.call_soon_threadsafe

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal woken
            woken += 1
            return original(*arguments, **options)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        first = asyncio.ensure_future(journal.appended(entry()))
        await asyncio.sleep(0)
        assert disk.reached.wait()
        rest = [asyncio.ensure_future(journal.appended(entry())) for _ in range(10)]
        await asyncio.sleep(0)
        disk.go_on.set()
        return await asyncio.gather(first, *rest), woken

    ends, woken = asyncio.run(append_many())
    assert ends == sorted(ends)
    assert len(payloads(opener.folder)) == 11
    assert woken == 2


def test_a_coroutine_that_went_away_does_not_disturb_the_others(opener: Opener) -> None:
    disk = GatedDisk()
    journal = opener(JournalSettings(), disk=disk)

    async def cancel_one() -> int:
        gone = asyncio.ensure_future(journal.appended(entry(b"gone")))
        stays = asyncio.ensure_future(journal.appended(entry(b"stays")))
        await asyncio.sleep(0)
        gone.cancel()
        cancelled = journal.append(entry(b"cancelled"))
        assert cancelled.cancel()
        disk.go_on.set()
        return await stays

    asyncio.run(cancel_one())
    eventually(lambda: payloads(opener.folder) == [b"gone", b"stays", b"cancelled"])


def test_times_never_decrease_and_never_precede_a_published_clock(opener: Opener) -> None:
    clock = random.Random(1)
    disk = WatchingDisk()

    def jumping() -> int:
        return clock.randrange(10**15, 10**15 + 10**9)

    for _ in range(3):
        journal = opener(disk=disk, now_ns=jumping, monotonic_ns=lambda: 0)
        disk.reader = opener.reader()
        for _ in range(6):
            journal.append(entry()).result()
            disk.note("answered")
        journal.close()
        disk.note("closed")
        records = read_all(opener.reader())
        stamps = [record.received_ns for record in records]
        assert stamps == sorted(stamps)
        for durable in disk.seen:
            assert all(record.received_ns >= durable.clock_ns for record in records if record.position >= durable.end)


def test_the_published_clock_moves_on_without_traffic(opener: Opener) -> None:
    now = FakeClock(10**18)
    opener(now_ns=now)
    reader = opener.reader()
    now.ns += 5_000_000_000
    eventually(lambda: reader.durable().clock_ns >= now.ns)
    assert reader.durable().end == 0


def test_a_journal_whose_clock_nobody_reads_stirs_once_a_second(opener: Opener) -> None:
    now = FakeClock(10**18)
    opener(now_ns=now, clocked=False)
    reader = opener.reader()
    begun_s, asked = time.monotonic(), now.asked
    now.ns += 5_000_000_000
    eventually(lambda: reader.durable().clock_ns >= now.ns)  # it moves on all the same
    eventually(lambda: now.asked > asked + 2)
    assert now.asked - asked <= 2 * (2 + time.monotonic() - begun_s)


def test_a_second_writer_is_told_who_the_first_is(opener: Opener) -> None:
    journal = opener()
    with pytest.raises(JournalLocked, match=rf"in use by process {os.getpid()}; stop it"):
        opener()
    journal.close()
    opener()


def test_a_closed_journal_has_written_what_waited_and_takes_no_more(opener: Opener) -> None:
    disk = GatedDisk()
    journal = opener(JournalSettings(), disk=disk)
    waiting = [journal.append(entry()) for _ in range(5)]
    disk.go_on.set()
    journal.close()
    assert [future.result(0) for future in waiting] == [54, 108, 162, 216, 270]
    with refused("shutting_down", match="shutting down"):
        journal.append(entry())
    journal.close()


@pytest.mark.parametrize("errno", [ENOSPC, EDQUOT])
def test_a_full_disk_refuses_and_recovers_by_itself(opener: Opener, errno: int) -> None:
    disk = FailingDisk()
    telemetry = Telemetry("receive")
    journal = opener(disk=disk, telemetry=telemetry)
    journal.append(entry(b"before")).result()
    disk.fail_write = OSError(errno, "no space")
    with refused("journal_full", match=r"the disk is full \(no space\); make room"):
        journal.append(entry(b"refused")).result()
    assert opener.last_segment().stat().st_size == journal.end
    journal.append(entry(b"after")).result()
    assert payloads(opener.folder) == [b"before", b"after"]
    assert telemetry.value("tracegrade.journal.failed_commits", reason="disk_full") == 1


@pytest.mark.parametrize("before", [0, 1, 2], ids=["empty journal", "segment with records", "full segment"])
@pytest.mark.parametrize("can_cut", [True, False])
def test_a_failed_sync_ends_the_segment_and_nothing_refused_is_read(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, before: int, can_cut: bool
) -> None:
    disk = FailingDisk()
    journal = opener(disk=disk)
    expected = [bytes([i]) * SIZE for i in range(before)]
    for payload in expected:
        journal.append(entry(payload)).result()
    reader = opener.reader()
    assert len(read_all(reader)) == before

    if not can_cut:
        monkeypatch.setattr(os, "ftruncate", fails_to_cut)
    disk.fail_sync = OSError(EIO, "i/o error")
    with refused("journal_unavailable", match=r"the disk failed \(i/o error\)"):
        journal.append(entry(b"refused")).result()
    assert len(read_all(reader)) == before
    journal.append(entry(b"after")).result()
    assert [record.payload for record in read_all(reader)] == [*expected, b"after"]
    assert opener.last_segment().name == f"{200 * before:020d}.segment"  # a new one, right after what was answered

    monkeypatch.undo()
    journal.close()
    reopened = opener()
    assert (reopened.recovery.corrupt_bytes, payloads(opener.folder)) == (0, [*expected, b"after"])


def fails_to_cut(fd: int, length: int) -> None:
    raise OSError(EIO, "i/o error")


def test_after_a_failed_sync_the_same_file_is_not_written_again(opener: Opener) -> None:
    disk = FailingDisk()
    journal = opener(disk=disk)
    disk.fail_sync = OSError(EIO, "i/o error")
    written_to: list[int] = []
    with refused("journal_unavailable"):
        journal.append(entry(b"refused")).result()
    written_to.append(opener.last_segment().stat().st_ino)
    keeps_its_inode = opener.last_segment().open("rb")
    with keeps_its_inode:
        journal.append(entry(b"after")).result()
        written_to.append(opener.last_segment().stat().st_ino)
    assert written_to[0] != written_to[1]


def test_a_disk_that_keeps_failing_refuses_every_time(opener: Opener) -> None:
    disk = FailingDisk()
    journal = opener(disk=disk)
    for _ in range(5):
        disk.fail_sync = OSError(EIO, "i/o error")
        with refused("journal_unavailable"):
            journal.append(entry(b"refused")).result()
    assert journal.append(entry(b"after")).result() == journal.end
    assert payloads(opener.folder) == [b"after"]


def test_a_failed_write_refuses_only_its_own_run(opener: Opener) -> None:
    class FailingGate(GatedDisk):
        def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
            super().write(fd, buffers, offset)
            if b"poison" in buffers:
                raise OSError(EIO, "i/o error")

    disk = FailingGate()
    journal = opener(disk=disk)
    first = journal.append(entry(b"first"))
    assert disk.reached.wait()
    poison, last = journal.append(entry(b"poison")), journal.append(entry(bytes(600)))
    disk.go_on.set()
    assert first.result()
    assert last.result()
    assert getattr(poison.exception(5), "reason", "") == "journal_unavailable"
    assert payloads(opener.folder) == [b"first", bytes(600)]


def test_too_much_waiting_for_the_disk_is_refused(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.journal.refusals.MAX_WAITING_BYTES", 1000)
    disk = GatedDisk()
    journal = opener(JournalSettings(), disk=disk)
    taken = [journal.append(entry(bytes(SIZE))) for _ in range(5)]
    with refused("journal_full", match="the disk is too slow"):
        journal.append(entry(bytes(SIZE)))
    disk.go_on.set()
    assert taken[-1].result() == 1000
    eventually(lambda: journal.append(entry()).result() > 0)


def test_sync_interval_answers_before_the_sync_and_syncs_later(opener: Opener) -> None:
    now = FakeClock(10**18)
    disk = WatchingDisk()
    journal = opener(JournalSettings(sync="interval", sync_interval="10s"), disk=disk, now_ns=now)
    disk.reader = opener.reader()
    journal.append(entry()).result()
    eventually(lambda: ("synced", journal.end) in disk.calls)  # the first is due at once
    disk.calls.clear()
    journal.append(entry()).result()
    reader = opener.reader()
    now.ns += 9_000_000_000
    eventually(lambda: reader.durable().clock_ns >= now.ns)
    assert [what for what, _ in disk.calls] == ["written"]
    now.ns += 2_000_000_000
    eventually(lambda: disk.calls[-1] == ("synced", journal.end))


def test_an_entry_that_cannot_be_a_record_is_refused_alone(opener: Opener) -> None:
    journal = opener()
    with pytest.raises(ValueError, match="-1 items"):
        journal.append(entry(items=-1))
    journal.append(entry(b"good")).result()
    assert payloads(opener.folder) == [b"good"]


def test_gauges_show_the_journal(opener: Opener) -> None:
    now = FakeClock(10**18)
    telemetry = Telemetry("receive")
    journal = opener(telemetry=telemetry, name="results", now_ns=now)
    end = journal.append(entry()).result()
    now.ns += 2_000_000_000
    eventually(lambda: telemetry.value("tracegrade.journal.end", journal="results") == end)
    assert telemetry.value("tracegrade.journal.size", journal="results") == end


def test_nothing_appended_together_is_answered_with_the_end(opener: Opener) -> None:
    journal = opener()
    end = journal.append(entry()).result()
    empty: list[Entry] = []
    assert journal.append_all(empty).result() == end


def test_a_failed_interval_sync_is_counted_and_writing_goes_on_in_a_new_segment(opener: Opener) -> None:
    now = FakeClock(10**18)
    disk = FailingDisk()
    journal = opener(JournalSettings(sync="interval", sync_interval="10s"), disk=disk, now_ns=now)
    disk.fail_sync = OSError(EIO, "i/o error")
    end = journal.append(entry(b"first")).result()
    eventually(lambda: journal.telemetry.value("tracegrade.journal.failed_commits", reason="disk_error") == 1)
    journal.append(entry(b"second")).result()
    assert opener.last_segment().name == f"{end:020d}.segment"
    assert payloads(opener.folder) == [b"first", b"second"]


def test_should_the_writer_thread_die_nobody_waits_for_ever(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    uncaught: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", uncaught.append)
    disk, broken = GatedDisk(), threading.Event()

    def now_ns() -> int:
        if broken.is_set():
            raise RuntimeError("a bug")
        return time.time_ns()

    journal = opener(JournalSettings(), disk=disk, now_ns=now_ns)
    first = journal.append(entry())
    assert disk.reached.wait()
    waiting = journal.append(entry())
    broken.set()
    disk.go_on.set()
    assert first.result()
    assert getattr(waiting.exception(5), "reason", "") == "journal_unavailable"
    with refused("shutting_down"):
        journal.append(entry())
    journal.close()
    assert len(uncaught) == 1
    assert opener().end > 0


def gone(journal: LocalJournal) -> bool:
    return journal.telemetry.conditions.holds("data_folder_gone", "journal")


TAKEN_AWAY: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "moved": lambda folder: folder.rename(folder.with_name("elsewhere")),
    "segments deleted": lambda folder: shutil.rmtree(folder / "segments"),
    "last segment deleted": lambda folder: max((folder / "segments").iterdir()).unlink(),
    "end deleted": lambda folder: (folder / "durable").unlink(),
    "replaced by a copy": lambda folder: (
        folder.rename(folder.with_name("elsewhere")),
        shutil.copytree(folder.with_name("elsewhere"), folder),
    ),
}


@pytest.mark.parametrize("take_away", TAKEN_AWAY.values(), ids=TAKEN_AWAY)
@pytest.mark.parametrize("sync", ["always", "interval"])
def test_nothing_is_answered_that_nobody_would_find(
    opener: Opener, take_away: Callable[[Path], object], sync: str
) -> None:
    journal = opener(JournalSettings(sync=sync))  # type: ignore[arg-type]
    journal.append(entry(b"kept")).result()
    end = journal.end
    take_away(opener.folder)
    for _ in range(3):
        with refused("journal_unavailable", match=r"deleted, moved or replaced .* the sender should retry"):
            journal.append(entry()).result()
    assert journal.end == end
    assert gone(journal)
    assert journal.telemetry.value("tracegrade.journal.failed_commits", reason="folder_gone") == 3
    journal.trim({})
    with pytest.raises(OSError, match="deleted, moved or replaced"):
        journal.erase(lambda record: None)


def test_that_it_is_gone_is_said_without_senders_and_a_folder_that_comes_back_is_written_on(opener: Opener) -> None:
    journal = opener(JournalSettings())
    journal.append(entry(b"first")).result()
    elsewhere = opener.folder.with_name("elsewhere")
    opener.folder.rename(elsewhere)
    eventually(lambda: gone(journal))
    elsewhere.rename(opener.folder)
    journal.append(entry(b"second")).result()
    assert payloads(opener.folder) == [b"first", b"second"]


def test_what_took_its_place_is_left_alone(opener: Opener) -> None:
    journal = opener()  # each third record begins a segment
    for _ in range(2):
        journal.append(entry(bytes(SIZE))).result()
    opener.folder.rename(opener.folder.with_name("elsewhere"))
    stranger = segment_path(opener.folder, journal.end)
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(b"of another journal")
    for _ in range(3):
        with refused("journal_unavailable"):
            journal.append(entry(bytes(SIZE))).result()
    assert stranger.read_bytes() == b"of another journal"
