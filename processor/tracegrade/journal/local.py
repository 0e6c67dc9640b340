"""The journal on local disk: one writer process, any number of readers."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Self

from tracegrade.journal.append import Append
from tracegrade.journal.clock import JournalClock
from tracegrade.journal.commit_queue import CommitQueue
from tracegrade.journal.committer import Committer
from tracegrade.journal.disk import Disk, sync_folder
from tracegrade.journal.erase import Change, remove_leftovers, rewrite_segment
from tracegrade.journal.lock import FolderLock
from tracegrade.journal.published import Publisher
from tracegrade.journal.recent import RecentRecords
from tracegrade.journal.record import HEADER_BYTES, MAX_TENANT_BYTES, Entry, Header, Signal, Unreadable, decode_header
from tracegrade.journal.recovery import Recovery, recover
from tracegrade.journal.refusals import Refusals
from tracegrade.journal.retention import Consumer, Segment, deletable_segments, unread_items
from tracegrade.journal.segments import FOLDER_NAME, read_segment, scan, segment_bases, segment_path
from tracegrade.journal.settings import JournalSettings
from tracegrade.journal.writer import SegmentWriter
from tracegrade.telemetry.metrics import Telemetry


class LocalJournal:
    """The writer's side. Any thread may append; one thread of its own commits everything that waits, together.

    ``recovery`` says what the start found.
    """

    def __init__(
        self,
        folder: Path,
        settings: JournalSettings,
        writer: SegmentWriter,
        disk: Disk,
        publisher: Publisher,
        clock: JournalClock,
        lock: FolderLock,
        recovery: Recovery,
        telemetry: Telemetry,
        name: str,
        clocked: bool,
    ) -> None:
        """Use `open`."""
        self.recovery = recovery
        self.telemetry = telemetry
        self._folder = folder
        self._settings = settings
        self._writer = writer
        self._disk = disk
        self._publisher = publisher
        self._lock = lock
        self._name = name
        self._queue = CommitQueue()
        self._refusals = Refusals(folder, settings.max_bytes, writer, telemetry, name)
        self.committer = Committer(settings, writer, clock, self._queue, self._refusals, telemetry, name, clocked)
        self._closed = False
        self._trimming = threading.Lock()

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
        telemetry = telemetry or Telemetry("journal")
        disk = disk or Disk()
        (folder / FOLDER_NAME).mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder / "lock", f"the journal {name!r}")
        try:
            publisher = Publisher(folder)
            recovery = recover(folder, publisher.last, disk)
            clock = JournalClock(now_ns, monotonic_ns)
            clock.not_before(max(recovery.last_received_ns, publisher.last.clock_ns if publisher.last else 0))
            last_ns = recovery.last_received_ns or _last_received_ns(folder) or clock.read()
            writer = SegmentWriter(
                folder,
                disk,
                publisher,
                end=max(recovery.end, consumed),
                begun_ns={base: _first_received_ns(folder, base, last_ns) for base in segment_bases(folder)},
                last_ns=last_ns,
                segment_bytes=settings.segment_bytes,
            )
            writer.sync_every_write = settings.sync == "always"
            if recovery.appendable and writer.end == recovery.end:
                writer.write_on()
            for reason, count in (("torn", recovery.torn_bytes), ("corrupt", recovery.corrupt_bytes)):
                if count:
                    telemetry.add("tracegrade.journal.corrupt_bytes", count, journal=name, reason=reason)
            return cls(folder, settings, writer, disk, publisher, clock, lock, recovery, telemetry, name, clocked)
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
        self._queue.add(Append(entries, future), self._refusals.check_room)
        return future

    async def appended(self, *entries: Entry) -> int:
        """`append_all` for a coroutine, which goes on once `entries` are durable; returns the last one's end.

        One commit wakes the loop once, however many coroutines wait for it.

        Raises:
            JournalRefused: nothing was taken.
            ValueError: an entry cannot be a record.
        """
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.add(Append(entries, future), self._refusals.check_room)
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
        with self._trimming:
            if self.telemetry.conditions.holds("data_folder_gone", self._name):
                return {}  # the files under these names are not ours
            bases = list(self._writer.bases)
            sealed = [Segment(base, following, self._writer.begun_ns[following]) for base, following in pairwise(bases)]
            assert self._publisher.last is not None
            deletable = deletable_segments(
                sealed,
                self._writer.end,
                consumers,
                expired_ns=self._publisher.last.clock_ns - int(self._settings.max_age * 1e9),
                keep_bytes=self._settings.max_bytes * 7 // 8,
            )
            self._refusals.held_by = deletable.held_by
            lost: dict[str, Counter[Signal]] = {}
            for segment in deletable.delete:
                self._count_lost(segment, consumers, lost)
                segment_path(self._folder, segment.base).unlink(missing_ok=True)
                self._writer.bases.remove(segment.base)
                del self._writer.begun_ns[segment.base]
            if deletable.delete:
                sync_folder(self._folder / FOLDER_NAME)
            for consumer, state in consumers.items():
                self.telemetry.set("tracegrade.journal.position", state.position, journal=self._name, consumer=consumer)
            return lost

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
        with self._trimming:
            self.committer.check_in_place()
            self.committer.end_segment()
            remove_leftovers(self._folder)
            changed = 0
            for base, following in pairwise(list(self._writer.bases)):
                changed += rewrite_segment(self._folder, base, following, change, self._disk)
            self.committer.publish_rewritten()
            if self.committer.recent is not None:
                self.committer.recent.forget()
            return changed

    def close(self) -> None:
        """Commit all waiting appends, refuse later ones, publish for the last time, and release the lock."""
        if self._closed:
            return
        self._closed = True
        self.committer.close()
        try:
            self._writer.close()
        finally:
            self._publisher.close()
            self._lock.release()

    def _count_lost(
        self, segment: Segment, consumers: Mapping[str, Consumer], lost: dict[str, Counter[Signal]]
    ) -> None:
        behind = {name: state.position for name, state in consumers.items() if state.position < segment.end}
        if behind:
            for name, items in unread_items(self._folder, segment, behind).items():
                lost.setdefault(name, Counter()).update(items)


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
