"""The position of a consumer of a journal: one small file for each consumer, written only by the consumer."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from tracegrade.journal import slots
from tracegrade.journal.disk import create_filled


class Position:
    """One consumer's position file.

    ``commit`` survives a kill at once, and a power cut after at most ``sync_every_s``: work committed in between is
    then done again and never left out, since everything before a position was durable first. Any process may ``load``;
    only the owner commits.
    """

    def __init__(
        self,
        path: Path,
        *,
        sync_every_s: float = 1.0,
        sync: Callable[[int], None] | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is read or written yet.

        Args:
            path: of the file; its folder is made when missing.
            sync_every_s: the shortest time between two commits that wait for the disk.
            sync: waits until the data of a file descriptor is on the disk, instead of ``os.fdatasync``.
            monotonic_s: for tests.
        """
        self._path = path
        self._sync = sync
        self._sync_every_s = sync_every_s
        self._monotonic_s = monotonic_s
        self._sync_due_s = 0.0
        self._sequence = 0
        self._fd: int | None = None

    def load(self) -> int | None:
        """The last committed position; None when there is none, or none that can be read: start from the first."""
        found = self._newest()
        return found[1][0] if found else None

    def commit(self, position: int) -> None:
        """Everything before `position` is done.

        Raises:
            OSError: the file cannot be created or written.
        """
        if self._fd is None:
            self._open()
            assert self._fd is not None
        self._sequence += 1
        offset, data = slots.pack(self._sequence, (position, 0, 0))
        os.pwrite(self._fd, data, offset)
        now_s = self._monotonic_s()
        if now_s >= self._sync_due_s:
            (self._sync or os.fdatasync)(self._fd)
            self._sync_due_s = now_s + self._sync_every_s

    def close(self) -> None:
        """Make the last commit durable and close the file."""
        if self._fd is not None:
            os.fdatasync(self._fd)
            os.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        found = self._newest()
        self._sequence = found[0] if found else 0
        self._path.parent.mkdir(parents=True, exist_ok=True)
        create_filled(self._path, slots.FILE_BYTES)
        self._fd = os.open(self._path, os.O_RDWR)

    def _newest(self) -> tuple[int, slots.Numbers] | None:
        # The owner may be writing one slot; it cannot write both between two tries unless it is much faster than us.
        for _ in range(5):
            try:
                data = self._path.read_bytes()
            except FileNotFoundError:
                return None
            if found := slots.newest(data):
                return found
        return None
