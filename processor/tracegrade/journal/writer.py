"""Writing segments: bytes at the end of the last one, durable, then published."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracegrade.journal.disk import Disk, still_names, sync_folder
from tracegrade.journal.errors import FolderGoneError
from tracegrade.journal.published import Durable, Publisher
from tracegrade.journal.segments import segment_path


@dataclass(slots=True)
class Existing:
    """The contents of a journal when its writer starts.

    ``end`` is where the next record begins. ``begun_ns`` has the segments, each with a time before which none of its
    records came; ``last_ns`` is the receive time of the last record, or later.
    """

    end: int
    begun_ns: dict[int, int]
    last_ns: int


class SegmentWriter:
    """The end of a journal. One thread writes; others may read ``end``, ``bases`` and ``begun_ns``, and drop old bases.

    ``last_ns`` is the receive time of the last record, or later.

    After a failed write, the file is cut back to the published end. After a failed sync, it is unknown which pages
    reached the disk, and the next sync may succeed without trying them again. So the file is never written again: it
    ends at the published end, and the next write begins a new segment there.
    """

    def __init__(
        self,
        folder: Path,
        disk: Disk,
        publisher: Publisher,
        existing: Existing,
        segment_bytes: int,
    ) -> None:
        """Begin at the end of what exists."""
        self.folder = folder
        self.disk = disk
        self.publisher = publisher
        self.end = existing.end
        self.last_ns = existing.last_ns
        self.begun_ns = existing.begun_ns
        self.bases = sorted(existing.begun_ns)
        self.sync_every_write = True
        self.unsynced = False
        self._segment_bytes = segment_bytes
        self._generation = publisher.last.segments + 1 if publisher.last else 0
        self._fd: int | None = None

    def write_on(self) -> None:
        """Go on in the last segment, which ends at ``end``."""
        self._fd = os.open(segment_path(self.folder, self.bases[-1]), os.O_RDWR)

    @property
    def used(self) -> int:
        """Bytes in all segments that are left."""
        return self.end - self.bases[0] if self.bases else 0

    @property
    def segment_used(self) -> int:
        """Bytes in the segment being written, 0 when the next write starts a new one."""
        return self.end - self.bases[-1] if self._fd is not None else 0

    def needs_segment(self, size: int) -> bool:
        """Whether `size` more bytes begin a new segment."""
        used = self.segment_used
        return self._fd is None or (used > 0 and used + size > self._segment_bytes)

    def append(self, buffers: Sequence[bytes], size: int, clock_ns: int) -> None:
        """Write `buffers` (`size` bytes) at the end, make them durable, publish them.

        Raises:
            OSError: nothing was taken, ``end`` is where it was.
        """
        if self.needs_segment(size):
            self.begin_segment(clock_ns)
        assert self._fd is not None
        try:
            self.disk.write(self._fd, buffers, self.segment_used)
        except OSError:
            self._cut()
            raise
        self.unsynced = True
        if self.sync_every_write:
            self.sync()
        try:
            self.check_in_place()
        except OSError:
            self._cut()
            raise
        self.end += size
        self.last_ns = clock_ns
        self.publish(clock_ns)

    def probe(self, size: int, clock_ns: int) -> None:
        """Write `size` bytes at the end, as for a record, and remove them again.

        Raises:
            OSError: the disk would not take such a record either.
        """
        if self.needs_segment(size):
            self.begin_segment(clock_ns)
        assert self._fd is not None
        try:
            self.disk.write(self._fd, [bytes(size)], self.segment_used)
        finally:
            self._cut()
        self.unsynced = True
        self.sync()

    def sync(self) -> None:
        """Make all that was written durable; on failure the segment ends here.

        Raises:
            OSError: the disk refused.
        """
        if self._fd is None or not self.unsynced:
            return
        try:
            self.disk.sync(self._fd)
        except OSError:
            self._abandon()
            raise
        self.unsynced = False

    def begin_segment(self, clock_ns: int) -> None:
        """Continue at the end in a new file; `clock_ns` is not later than its first record will be.

        Raises:
            OSError: no room for another file, or the last one could not be synced.
        """
        self.sync()
        if not self.publisher.is_in_place():  # else a file of another journal might be taken for a leftover
            raise self._gone()
        path = segment_path(self.folder, self.end)
        # Nothing in a file of this name was ever published: a new file replaces it, with a page cache of its own.
        path.unlink(missing_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            sync_folder(path.parent)
        except OSError:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        self._close()
        self._fd = fd
        self.begun_ns[self.end] = clock_ns
        if not self.bases or self.bases[-1] != self.end:
            self.bases.append(self.end)
        self._generation += 1

    def check_in_place(self) -> None:
        """Check that a reader who opens the journal now finds what was written.

        Raises:
            FolderGoneError: its files were deleted, moved or replaced.
            OSError: this cannot be found out.
        """
        if not self.publisher.is_in_place():
            raise self._gone()
        if self._fd is not None and not still_names(segment_path(self.folder, self.bases[-1]), os.fstat(self._fd)):
            raise self._gone()

    def _gone(self) -> FolderGoneError:
        return FolderGoneError(
            f"{self.folder}: its files were deleted, moved or replaced while they were written; "
            "move them back, or restart 'tracegrade serve'"
        )

    def publish(self, clock_ns: int) -> None:
        """Show readers the end and the clock."""
        self.publisher.publish(Durable(self.end, clock_ns, self._generation))

    def publish_rewritten(self, clock_ns: int) -> None:
        """Let readers open their segments again: there are other files under the same names."""
        self._generation += 1
        self.publish(clock_ns)

    def close(self) -> None:
        """Sync everything and close the file.

        Raises:
            OSError: the last sync failed; the file is closed in any case.
        """
        try:
            self.sync()
        finally:
            self._close()

    def _cut(self) -> None:
        assert self._fd is not None
        try:
            os.ftruncate(self._fd, self.segment_used)
        except OSError:
            self._abandon()

    def _abandon(self) -> None:
        """End the segment at ``end``. Bytes beyond are not the journal's, even if they cannot be cut off now."""
        assert self._fd is not None
        length = self.segment_used
        try:
            os.ftruncate(self._fd, length)
        except OSError:
            pass  # the next segment begins at `end`, and with it this one ends there
        finally:
            self._close()
            self.unsynced = False

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
