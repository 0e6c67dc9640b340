"""Carries out requested deletions in segments: other bytes at the same positions.

A segment is never changed in place: the result is a new file, durable before it takes the name of the old one, so that
a kill leaves one of the two. Readers have the old file open until the published generation changes.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from tracegrade.journal.disk import Disk, sync_folder
from tracegrade.journal.record import Entry, Record, Unreadable, checked_tenant, decode_record, encode_head
from tracegrade.journal.recovery import SET_ASIDE_NAME
from tracegrade.journal.segments import FOLDER_NAME, Gap, read_segment, scan, segment_path

UNFINISHED = ".unfinished"

# For a record, its new payload, of the same length; None to leave it unchanged.
Change: TypeAlias = Callable[[Record], bytes | None]


def rewrite_segment(folder: Path, base: int, end: int, change: Change, disk: Disk) -> int:
    """Apply `change` to the records of a segment that is no longer written. Returns the number of records changed.

    Bytes that cannot be read become zeros, since their owner is unknown.

    Raises:
        OSError: the disk refused; the segment is as it was.
    """
    path = segment_path(folder, base)
    data = read_segment(path, end - base)
    patches: list[tuple[int, bytes]] = []
    changed = 0
    for part in scan(data, base):
        offset = part.position - base
        if isinstance(part, Gap):
            length = part.end - part.position
            if data.count(0, offset, offset + length) < length:
                patches.append((offset, bytes(length)))
            continue
        record = decode_record(data, offset, part.position)
        assert not isinstance(record, Unreadable), "scan has verified it"
        payload = change(record)
        if payload is not None and payload != record.payload:
            patches.append((offset, _encoded(record, payload)))
            changed += 1
    if patches:
        _replace(path, data, patches, disk)
    return changed


def remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of an erasure that was killed, and the copies of damaged bytes."""
    for path in [*(folder / FOLDER_NAME).glob(f"*{UNFINISHED}"), *(folder / SET_ASIDE_NAME).glob("*")]:
        path.unlink(missing_ok=True)


def _encoded(record: Record, payload: bytes) -> bytes:
    if len(payload) != len(record.payload):
        raise ValueError(f"a payload of {len(payload)} bytes for one of {len(record.payload)}; expected as many")
    entry = Entry(record.signal, record.encoding, record.tenant, record.items, payload)
    return encode_head(entry, checked_tenant(entry), crc32(payload), record.position, record.received_ns) + payload


def _replace(path: Path, data: bytes, patches: list[tuple[int, bytes]], disk: Disk) -> None:
    written = path.with_name(path.name + UNFINISHED)
    fd = os.open(written, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        disk.write(fd, [data], 0)
        for offset, patch in patches:
            disk.write(fd, [patch], offset)
        disk.sync(fd)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    sync_folder(path.parent)
