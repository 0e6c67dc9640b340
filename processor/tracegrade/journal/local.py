"""The journal on local disk: one writer process, any number of readers."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Self

from tracegrade.journal.append import Append
from tracegrade.journal.clock import JournalClock
from tracegrade.journal.committer import Committer
from tracegrade.journal.disk import Disk
from tracegrade.journal.erase import Change
from tracegrade.journal.journal_telemetry import JournalTelemetry
from tracegrade.journal.lock import FolderLock
from tracegrade.journal.maintenance import Maintenance
from tracegrade.journal.published import Publisher
from tracegrade.journal.recent import RecentRecords
from tracegrade.journal.record import HEADER_BYTES, MAX_TENANT_BYTES, Entry, Header, Signal, Unreadable, decode_header
from tracegrade.journal.recovery import Recovery, recover
from tracegrade.journal.refusals import Refusals
from tracegrade.journal.retention import Consumer
from tracegrade.journal.segments import FOLDER_NAME, read_segment, scan, segment_bases, segment_path
from tracegrade.journal.settings import JournalSettings
from tracegrade.journal.writer import Existing, SegmentWriter
from tracegrade.telemetry.metrics import Telemetry


class LocalJournal:
    """The writer's side. Any thread may append; one thread of its own commits everything that waits, together.

    ``recovery`` says what the start found.
    """

    def __init__(
        self,
        writer: SegmentWriter,
        committer: Committer,
        maintenance: Maintenance,
        lock: FolderLock,
        recovery: Recovery,
    ) -> None:
        """Use `open`."""
        self.recovery = recovery
        self.committer = committer
        self.telemetry = committer.telemetry.telemetry
        self._writer = writer
        self._maintenance = maintenance
        self._lock = lock
        self._closed = False

    @classmethod
    def open(
        cls,
        folder: Path,
        settings: JournalSettings | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        telemetry: Telemetry | None = None,
        name: str = "journal",
        *,
        consumed: int = 0,
        clocked: bool = True,
        disk: Disk | None = None,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> Self:
        """Take the writer's lock on `folder`, recover its content, and start committing.

        Args:
            folder: created when missing.
            settings: defaults when omitted.
            now_ns: the time of day.
            telemetry: counts commits, sizes and damage.
            name: the metrics' label ``journal``.
            consumed: the highest position that any consumer has committed; no record is written before it, even if a
                disk that lied, or ``sync: interval``, lost the records there.
            clocked: readers use the published clock; if not, it moves on only with commits and once a second.
            disk: for tests.
            monotonic_ns: for tests.

        Raises:
            JournalLocked: another process writes here.
            OSError: the folder cannot be used.
        """
        settings = settings or JournalSettings()
        of_journal = JournalTelemetry(telemetry or Telemetry("journal"), name)
        disk = disk or Disk()
        (folder / FOLDER_NAME).mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder / "lock", f"the journal {name!r}")
        try:
            publisher = Publisher(folder)
            recovery = recover(folder, publisher.last, disk)
            clock = JournalClock(now_ns, monotonic_ns)
            clock.not_before(max(recovery.last_received_ns, publisher.last.clock_ns if publisher.last else 0))
            last_ns = recovery.last_received_ns or _last_received_ns(folder) or clock.read()
            begun_ns = {base: _first_received_ns(folder, base, last_ns) for base in segment_bases(folder)}
            existing = Existing(max(recovery.end, consumed), begun_ns, last_ns)
            writer = SegmentWriter(folder, disk, publisher, existing, settings.segment_bytes)
            writer.sync_every_write = settings.sync == "always"
            if recovery.appendable and writer.end == recovery.end:
                writer.write_on()
            for reason, count in (("torn", recovery.torn_bytes), ("corrupt", recovery.corrupt_bytes)):
                if count:
                    of_journal.add("corrupt_bytes", count, reason=reason)
            refusals = Refusals(writer, settings.max_bytes, of_journal)
            committer = Committer(settings, writer, clock, refusals, of_journal, clocked=clocked)
            return cls(writer, committer, Maintenance(settings, writer, committer, refusals), lock, recovery)
        except BaseException:
            lock.release()
            raise

    @property
    def end(self) -> int:
        """The durable end: where the next record will begin."""
        return self._writer.end

    @property
    def first(self) -> int:
        """The first position that retention has kept; the end when there is no record."""
        bases = self._writer.bases
        return bases[0] if bases else self._writer.end

    def append(self, entry: Entry, durable: "Future[int] | None" = None) -> "Future[int]":
        """Append `entry`.

        Args:
            entry: becomes a record.
            durable: returned and settled; a new one when omitted. Callbacks that it has already run in the writing
                thread, in the order of the records.

        Returns:
            The record's end position, once it is durable. It fails with `JournalRefused` when the
            disk did not take it.

        Raises:
            JournalRefused: not even tried: full, or closed.
            ValueError: the entry cannot be a record.
        """
        return self.append_all((entry,), durable)

    def append_all(self, entries: Sequence[Entry], durable: "Future[int] | None" = None) -> "Future[int]":
        """Append several entries in one commit and one segment: all of them are taken, or none is."""
        future = durable or Future()
        self.committer.add(Append(entries, future))
        return future

    async def appended(self, *entries: Entry) -> int:
        """`append_all` for a coroutine, which goes on once `entries` are durable; returns the last one's end.

        One commit wakes the loop once, however many coroutines wait for it.

        Raises:
            JournalRefused: nothing was taken.
            ValueError: an entry cannot be a record.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.committer.add(Append(entries, future))
        return await future

    def keep_recent(self, max_bytes: int) -> RecentRecords:
        """From now on, keep the newest records in memory, for readers in this process."""
        recent = self.committer.recent = RecentRecords(max_bytes)
        return recent

    def trim(self, consumers: Mapping[str, Consumer]) -> dict[str, Counter[Signal]]:
        """Delete according to retention; call it once a second, always from one thread that may wait for the disk.

        A segment is deleted when every consumer has read it and it is older than ``max_age`` or the journal is above
        seven eighths of ``max_size_mib``. In the latter case it is also deleted when all consumers that have not read
        it are ``drop_oldest``; one ``refuse`` consumer keeps it, and at the bound appends are refused.

        Returns:
            For each consumer that lost something, the items lost by signal.
        """
        return self._maintenance.trim(consumers)

    def erase(self, change: Change) -> int:
        """Apply `change` to every record that is durable now; always from one thread that may wait for the disk.

        Positions, receive times and counts do not change. After the return, readers see the new bytes. After a kill,
        calling it again does the rest.

        Returns:
            The number of records changed.

        Raises:
            OSError: the disk refused; some segments may already be changed.
            JournalRefused: shutting down.
        """
        return self._maintenance.erase(change)

    def close(self) -> None:
        """Commit all waiting appends, refuse later ones, publish for the last time, and release the lock."""
        if self._closed:
            return
        self._closed = True
        self.committer.close()
        try:
            self._writer.close()
        finally:
            self._writer.publisher.close()
            self._lock.release()


def _first_received_ns(folder: Path, base: int, otherwise: int) -> int:
    """The receive time of the segment's first record; `otherwise` when it has none."""
    with segment_path(folder, base).open("rb") as file:
        header = decode_header(file.read(HEADER_BYTES + MAX_TENANT_BYTES), 0, base)
    return otherwise if isinstance(header, Unreadable) else header.received_ns


def _last_received_ns(folder: Path) -> int:
    """The receive time of the last record; 0 where there is none."""
    for base in reversed(segment_bases(folder)):
        headers = [part for part in scan(read_segment(segment_path(folder, base)), base) if isinstance(part, Header)]
        if headers:
            return max(header.received_ns for header in headers)
    return 0
