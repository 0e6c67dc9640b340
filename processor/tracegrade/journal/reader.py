"""Reading a journal, from any process, beside a live writer or without one."""

import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tracegrade.journal.disk import read_readable
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.published import Durable, Published
from tracegrade.journal.record import (
    HEADER_BYTES,
    MAX_TENANT_BYTES,
    Record,
    Signal,
    Unreadable,
    decode_header,
    decode_record,
)
from tracegrade.journal.segments import counts, next_record, segment_bases, segment_path
from tracegrade.telemetry.metrics import Telemetry

DEFAULT_MAX_BYTES = 8 * 1024 * 1024


class JournalReader:
    """One consumer's view of a journal; takes no lock. Not for use by two threads at once.

    Bytes that cannot be read (a damaged disk, a lost file) are skipped up to the next readable record, never tried
    for ever: ``lost_bytes`` counts them, and so does the metric ``tracegrade.journal.corrupt_bytes``.
    """

    def __init__(self, folder: Path, *, telemetry: Telemetry | None = None, name: str = "journal") -> None:
        """Look at the journal in `folder`.

        Raises:
            JournalNotFound: there is none.
        """
        self.lost_bytes = 0
        self._folder = folder
        self._published = Published(folder)
        self._telemetry = telemetry
        self._name = name
        self._bases: list[int] = []
        self._listed = -1  # Durable.segments of the listing
        self._open_base = -1
        self._fd = -1
        self._skips: dict[int, int] = {}  # where unreadable bytes begin -> where reading goes on

    def durable(self) -> Durable:
        """The end that may be read, and the time before which no later record will be stamped. Costs no system call."""
        return self._published.read()

    def first(self) -> int:
        """The first position that can be read; the durable end when there is no record."""
        self._bases = segment_bases(self._folder)
        end = self.durable().end
        return min(self._bases[0], end) if self._bases else end

    def read(self, position: int, max_bytes: int = DEFAULT_MAX_BYTES) -> list[Record]:
        """The records from `position` on, in order, up to the durable end.

        Args:
            position: 0, `first()`, or the ``end`` of a record; then go on from the ``end`` of the last one returned.
            max_bytes: stop before this is exceeded, but return at least one record when there is one.

        Returns:
            Empty when there is nothing to read yet. The first record begins after `position` when bytes in between
            could not be read.

        Raises:
            SegmentDeleted: retention has deleted what stood at `position`.
        """
        durable = self.durable()
        if durable.segments != self._listed:
            self._list(durable)
        records: list[Record] = []
        budget = max_bytes
        while position < durable.end and budget > 0:
            index = bisect_right(self._bases, position) - 1
            if index < 0:
                if records:
                    break
                raise SegmentDeleted(position, self.first())
            base, limit = self._bases[index], min([*self._bases[index + 1 : index + 2], durable.end])
            try:
                found, reached = self._read_segment(base, position, limit, budget, at_least_one=not records)
            except FileNotFoundError:  # deleted since it was listed
                self._list(durable)
                continue
            records += found
            budget -= reached - position if found else 0
            if reached == position or (found and reached < limit):
                break
            position = reached
        return records

    def counts(self, position: int, end: int) -> Iterator[tuple[int, Signal, int]]:
        """End, signal and items of each record from `position` to `end`, a tenth of the time of reading them.

        What retention deletes meanwhile is left out.
        """
        for base, following in pairwise([*segment_bases(self._folder), end]):
            begin = max(base, position)
            if begin >= min(following, end):
                continue
            try:
                data = self._bytes(base, begin, min(following, end) - begin)
            except FileNotFoundError:
                continue
            yield from counts(data, begin)

    def close(self) -> None:
        """Close the files."""
        self._close_segment()
        self._published.close()

    def _read_segment(
        self, base: int, position: int, limit: int, budget: int, *, at_least_one: bool
    ) -> tuple[list[Record], int]:
        """Records of the segment at `base` from `position` on, and where to go on: `position` when none fits."""
        if position in self._skips:
            return [], self._skips[position]
        wanted = min(budget, limit - position)
        data = self._bytes(base, position, wanted)
        records, reached = _records(data, position)
        if records:
            return records, reached
        if (size := self._size_of_record(base, position)) > wanted:
            if not at_least_one:
                return [], position
            records, reached = _records(self._bytes(base, position, min(size, limit - position)), position)
            if records:
                return records, reached
        return [], self._skip(base, position, limit)

    def _size_of_record(self, base: int, position: int) -> int:
        header = decode_header(self._bytes(base, position, HEADER_BYTES + MAX_TENANT_BYTES), 0, position)
        return 0 if isinstance(header, Unreadable) else header.size

    def _skip(self, base: int, position: int, limit: int) -> int:
        """Where reading goes on after the unreadable bytes at `position`; `limit` when nothing follows in here."""
        data = self._bytes(base, position, limit - position)
        resumed = position + next_record(data, position, 1)
        if resumed >= position + len(data):
            resumed = limit
        self._skips[position] = resumed
        self.lost_bytes += resumed - position
        if self._telemetry is not None:
            self._telemetry.add(
                "tracegrade.journal.corrupt_bytes", resumed - position, journal=self._name, reason="unreadable"
            )
        return resumed

    def _bytes(self, base: int, position: int, length: int) -> bytes:
        """Up to `length` bytes at `position`, fewer where the file ends early."""
        return read_readable(self._segment_fd(base), length, position - base)

    def _segment_fd(self, base: int) -> int:
        if base == self._open_base and not os.fstat(self._fd).st_nlink:
            # Deleted, or rewritten, under us: what is deleted counts as lost, and is not read all the same.
            self._close_segment()
        if base != self._open_base:
            self._close_segment()
            self._fd = os.open(segment_path(self._folder, base), os.O_RDONLY)
            self._open_base = base
        return self._fd

    def _list(self, durable: Durable) -> None:
        self._close_segment()  # its file may have been rewritten
        self._bases = segment_bases(self._folder)
        self._listed = durable.segments

    def _close_segment(self) -> None:
        if self._open_base >= 0:
            os.close(self._fd)
            self._open_base = -1


def _records(data: bytes, position: int) -> tuple[list[Record], int]:
    """The records that `data` begins with, and the position after them."""
    records = []
    offset = 0
    while offset < len(data):
        record = decode_record(data, offset, position + offset)
        if isinstance(record, Unreadable):
            break
        records.append(record)
        offset = record.end - position
    return records, position + offset
