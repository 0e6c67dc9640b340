"""What the journal's tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracegrade.journal.disk import Disk
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Encoding, Entry, Record, Signal
from tracegrade.journal.settings import JournalSettings


class SmallSegments(JournalSettings):
    """Segments that a test fills with a handful of records; `SIZE` bytes of payload make 200-byte records."""

    @property
    def segment_bytes(self) -> int:
        return 500


class SmallSettings(SmallSegments):
    """A size bound that a test reaches, too."""

    @property
    def max_bytes(self) -> int:
        return 4000


SIZE = 200 - 40 - len("default")


class FakeClock:
    """A time of day that moves when told to."""

    def __init__(self, ns: int = 1_000) -> None:
        self.ns = ns
        self.asked = 0

    def __call__(self) -> int:
        self.asked += 1
        return self.ns


def entry(payload: bytes = b"payload", items: int = 1, signal: Signal = Signal.TRACES) -> Entry:
    return Entry(signal, Encoding.PROTOBUF, "default", items, payload)


def read_all(reader: JournalReader, position: int = 0, max_bytes: int = 8_000_000) -> list[Record]:
    found: list[Record] = []
    while records := reader.read(position, max_bytes):
        found += records
        position = records[-1].end
    return found


def payloads(folder: Path, position: int = 0) -> list[bytes]:
    reader = JournalReader(folder)
    try:
        return [record.payload for record in read_all(reader, position)]
    finally:
        reader.close()


class Opener:
    """Opens journals in one folder and closes what a test left open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[LocalJournal] = []

    def __call__(self, settings: JournalSettings | None = None, **options: Any) -> LocalJournal:
        journal = LocalJournal.open(self.folder, settings or SmallSettings(), **options)
        self._opened.append(journal)
        return journal

    def reader(self) -> JournalReader:
        return JournalReader(self.folder)

    def last_segment(self) -> Path:
        return max((self.folder / "segments").iterdir())

    def close(self) -> None:
        for journal in self._opened:
            journal.close()


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path / "journal")
    yield opener
    opener.close()


class FailingDisk(Disk):
    """Fails the next write (halfway) or the next sync with the given error."""

    def __init__(self) -> None:
        self.fail_write: OSError | None = None
        self.fail_sync: OSError | None = None

    def write(self, fd: int, buffers: Any, offset: int) -> None:
        if self.fail_write is not None:
            error, self.fail_write = self.fail_write, None
            super().write(fd, buffers[: len(buffers) // 2], offset)
            raise error
        super().write(fd, buffers, offset)

    def sync(self, fd: int) -> None:
        if self.fail_sync is not None:
            error, self.fail_sync = self.fail_sync, None
            raise error
        super().sync(fd)
