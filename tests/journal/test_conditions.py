"""What a journal says while it refuses, and that it says so no longer once it would take what it refused."""

import os
import time
from collections.abc import Sequence
from errno import EIO, ENOSPC, EROFS
from pathlib import Path
from typing import Any

import pytest

from build.refused import refused
from journal.conftest import SIZE, Opener, SmallSettings, entry, payloads
from tracegrade.journal.disk import Disk
from tracegrade.journal.errors import JournalRefused
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.refusals import Refusals
from tracegrade.journal.retention import Consumer
from waiting import eventually

QUIET_NS = 1_000_000


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.journal.refusals.QUIET_NS", QUIET_NS)
    monkeypatch.setattr("tracegrade.journal.committer.GAUGES_EVERY_NS", 0)


class FailingDisk(Disk):
    """Fails writes, or syncs, that take a file beyond `room` bytes, while told so."""

    def __init__(self) -> None:
        self.write_error = self.sync_error = 0
        self.room = 0
        self.writes = 0

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        self.writes += 1
        if self.write_error and offset + sum(map(len, buffers)) > self.room:
            raise OSError(self.write_error, os.strerror(self.write_error))
        super().write(fd, buffers, offset)

    def sync(self, fd: int) -> None:
        if self.sync_error:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        super().sync(fd)


def names(journal: LocalJournal) -> list[str]:
    return [condition.name for condition in journal.telemetry.conditions.current()]


@pytest.mark.parametrize("error", [ENOSPC, EROFS, EIO])
@pytest.mark.parametrize("when", ["write", "sync"])
def test_a_failing_disk_is_one_state_that_ends_without_any_sender(
    opener: Opener, caplog: pytest.LogCaptureFixture, when: str, error: int
) -> None:
    disk = FailingDisk()
    journal = opener(disk=disk)
    journal.append(entry(b"before")).result()
    setattr(disk, f"{when}_error", error)
    for _ in range(30):
        with pytest.raises(JournalRefused):
            journal.append(entry(b"refused")).result()
    assert names(journal) == ["disk_failing"]
    (condition,) = journal.telemetry.conditions.current()
    assert os.strerror(error) in condition.message
    setattr(disk, f"{when}_error", 0)
    eventually(lambda: names(journal) == [])
    journal.append(entry(b"after")).result()
    assert payloads(opener.folder) == [b"before", b"after"]
    assert [record.message.partition(": ")[0].partition(" is over")[0] for record in caplog.records] == [
        "disk_failing (journal)",
        "disk_failing (journal)",
    ]


def test_a_disk_with_room_for_less_than_was_refused_still_fails(opener: Opener) -> None:
    disk = FailingDisk()
    journal = opener(disk=disk)
    disk.write_error, disk.room = ENOSPC, 100
    with refused("journal_full"):
        journal.append(entry(bytes(SIZE))).result()
    disk.room = 190
    written = disk.writes
    eventually(lambda: disk.writes >= written + 3)  # it was tried, and again
    assert names(journal) == ["disk_failing"]
    disk.room = 200
    eventually(lambda: names(journal) == [])
    assert payloads(opener.folder) == []


def test_a_full_journal_is_one_state_that_ends_when_there_is_room(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def look(refusals: Refusals, now_ns: int, waiting_bytes: int, real: Any = Refusals.end_those_over) -> None:
        begun_ns = time.monotonic_ns()
        real(refusals, now_ns, waiting_bytes)
        looks.append(begun_ns)

    monkeypatch.setattr(Refusals, "end_those_over", look)
    journal = opener(SmallSettings())
    while journal.end + 200 <= SmallSettings().max_bytes:
        end = journal.append(entry(bytes(SIZE))).result()
    with refused("journal_full"):
        journal.append(entry(bytes(SIZE)))
    refused_ns = time.monotonic_ns()
    assert names(journal) == ["journal_full"]
    journal.trim({"otlp": Consumer(0, "refuse")})
    eventually(lambda: looks and looks[-1] > refused_ns + QUIET_NS, "a look when nothing was refused for long enough")
    assert names(journal) == ["journal_full"], "what was refused would be refused again"
    journal.trim({"otlp": Consumer(end, "refuse")})
    eventually(lambda: names(journal) == [])


def test_a_probe_leaves_nothing_behind(opener: Opener, tmp_path: Path) -> None:
    disk = FailingDisk()
    journal = opener(disk=disk)
    end = journal.append(entry(b"before")).result()
    disk.write_error = ENOSPC
    with refused("journal_full"):
        journal.append(entry(bytes(SIZE))).result()
    disk.write_error = 0
    eventually(lambda: names(journal) == [])
    (segment,) = (opener.folder / "segments").iterdir()
    assert segment.stat().st_size == end == journal.end
