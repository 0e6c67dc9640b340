"""Segment files: their list, and the content of one, damaged or not.

A segment is named by the position of its first byte, twenty digits, so names sort as positions do. It ends where the
next one begins; bytes of its file beyond that are not part of the journal.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from tracegrade.journal.disk import read_readable
from tracegrade.journal.record import MAGIC, Header, Signal, Unreadable, decode_count, decode_header

FOLDER_NAME = "segments"
SUFFIX = ".segment"


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes from ``position`` to ``end`` that hold no readable record."""

    position: int
    end: int


def segment_path(folder: Path, base: int) -> Path:
    """The file of the segment that begins at `base`; `folder` is the journal's."""
    return folder / FOLDER_NAME / f"{base:020d}{SUFFIX}"


def segment_bases(folder: Path) -> list[int]:
    """Where the segments begin, in order."""
    names = (path.name.removesuffix(SUFFIX) for path in (folder / FOLDER_NAME).glob(f"*{SUFFIX}"))
    return sorted(int(name) for name in names if name.isdecimal())


def read_segment(path: Path, length: int | None = None) -> bytes:
    """All of a segment file, or its first `length` bytes; zeros where the disk cannot read."""
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        return read_readable(fd, size if length is None else min(size, length), 0)
    finally:
        os.close(fd)


def scan(data: bytes, base: int) -> Iterator[Header | Gap]:
    """Everything in `data`, which begins at position `base`: records (verified) and gaps.

    Never two gaps in a row, so a gap is followed by a record or by the end.
    """
    offset = 0
    while offset < len(data):
        header = verified(data, base, offset)
        if header is not None:
            yield header
            offset += header.size
        else:
            resumed = next_record(data, base, offset + 1)
            yield Gap(base + offset, base + resumed)
            offset = resumed


def counts(data: bytes, base: int) -> Iterator[tuple[int, Signal, int]]:
    """End, signal and items of the records in `data`: of those with an intact header, payloads unread."""
    offset = 0
    while offset < len(data):
        counted = decode_count(data, offset, base + offset)
        if counted is None:
            offset = next_record(data, base, offset + 1)
        else:
            size, signal, items = counted
            offset += size
            yield base + offset, signal, items


def next_record(data: bytes, base: int, offset: int) -> int:
    """The offset of the first readable record at or after `offset`, ``len(data)`` when there is none."""
    while (offset := data.find(MAGIC, offset)) >= 0:
        if verified(data, base, offset) is not None:
            return offset
        offset += 1
    return len(data)


def verified(data: bytes, base: int, offset: int) -> Header | None:
    """The header of the record at ``data[offset:]``, None unless all of the record is there and intact."""
    header = decode_header(data, offset, base + offset)
    if isinstance(header, Unreadable):
        return None
    payload = memoryview(data)[offset + header.head_length : offset + header.size]
    if len(payload) < header.payload_length or crc32(payload) != header.payload_crc:
        return None
    return header
