"""The positions that a journal's writer publishes to its readers, in a small file that both map into memory."""

import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tracegrade.journal import slots
from tracegrade.journal.disk import create_filled, still_names
from tracegrade.journal.errors import JournalError, JournalNotFound

FILE_NAME = "durable"


class Durable(NamedTuple):
    """The end up to which a journal may be read.

    Every record before ``end`` is durable; no record at or after ``end`` will be stamped before ``clock_ns`` (ns since
    1970 UTC). ``segments`` changes whenever the set of segment files does, or what is in one of them.
    """

    end: int
    clock_ns: int
    segments: int


class Publisher:
    """The writer's side: a store into shared memory, no system call."""

    def __init__(self, folder: Path) -> None:
        self._path = path = folder / FILE_NAME
        create_filled(path, slots.FILE_BYTES)
        with path.open("r+b") as file:
            self._file = os.fstat(file.fileno())
            self._map = mmap.mmap(file.fileno(), slots.FILE_BYTES)
        found = slots.newest(self._map[:])
        self._sequence = found[0] if found else 0
        self.last = Durable(*found[1]) if found else None

    def is_in_place(self) -> bool:
        """Whether readers that begin now would find what is published here.

        Raises:
            OSError: this cannot be found out.
        """
        return still_names(self._path, self._file)

    def publish(self, durable: Durable) -> None:
        """Show `durable` to every reader from now on."""
        self._sequence += 1
        offset, data = slots.pack(self._sequence, durable)
        self._map[offset : offset + len(data)] = data
        self.last = durable

    def close(self) -> None:
        """Write the last value to the disk and close the file; a disk that refuses leaves it as a power cut does."""
        with suppress(OSError):
            self._map.flush()
        self._map.close()


class Published:
    """A reader's side, in any process."""

    def __init__(self, folder: Path) -> None:
        """Open it.

        Raises:
            JournalNotFound: there is no journal, or its writer has not published anything yet.
        """
        self._path = folder / FILE_NAME
        try:
            with self._path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), slots.FILE_BYTES, access=mmap.ACCESS_READ)
            if not any(self._map[:]):  # filled with zeros
                self._map.close()
                raise FileNotFoundError
        except (FileNotFoundError, ValueError):  # ValueError: the writer has created it and not filled it yet
            raise JournalNotFound(
                f"{folder}: no journal here; expected what 'tracegrade serve' writes: start it, or name its data_dir"
            ) from None

    def read(self) -> Durable:
        """The newest value.

        Raises:
            JournalError: the file is damaged; the next start of the writer repairs it.
        """
        for _ in range(100):  # both slots can only look invalid while the writer overtakes us
            if found := slots.newest(self._map[:]):
                return Durable(*found[1])
        raise JournalError(f"{self._path}: damaged, no valid slot; starting 'tracegrade serve' finds the end again")

    def close(self) -> None:
        """Close the file."""
        self._map.close()
