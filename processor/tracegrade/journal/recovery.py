"""Recovery at the writer's start: find the end, cut off a torn record, set aside damaged bytes."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from tracegrade.journal.disk import Disk
from tracegrade.journal.published import Durable
from tracegrade.journal.record import Header
from tracegrade.journal.segments import Gap, read_segment, scan, segment_bases, segment_path

SET_ASIDE_NAME = "set_aside"


@dataclass(slots=True)
class Recovery:
    """The findings of the start.

    ``end`` is where the next record goes, ``last_received_ns`` the last stamp found (0 without one). ``torn_bytes``
    were written and never answered, and are cut off. ``corrupt_bytes`` were readable once: they stay, since readers
    skip them, and are copied into ``set_aside`` files. ``appendable`` says whether the last segment ends at ``end``, so
    that more can be appended to it.
    """

    end: int = 0
    last_received_ns: int = 0
    torn_bytes: int = 0
    corrupt_bytes: int = 0
    set_aside: list[Path] = field(default_factory=list)
    appendable: bool = False


def recover(folder: Path, published: Durable | None, disk: Disk) -> Recovery:
    """Find the end of the journal in `folder`, also after a kill or a power cut, and make it durable.

    Records after the published end are kept when they are whole: the published value may be older than the data after
    a power cut, and a record that was never answered does no harm. The published end itself is never gone back on,
    since consumers may have been there: when the bytes before it are gone, they count as corrupt.
    """
    found = Recovery()
    bases = segment_bases(folder)
    known = published.end if published else 0
    if not bases:
        found.end = known
        return found
    scanned = _from(bases, known) if published else bases[-2:]
    for base, following in zip(scanned, [*scanned[1:], None], strict=True):
        _recover_segment(folder, base, following, known, found, disk)
    return found


def _from(bases: list[int], position: int) -> list[int]:
    """The segments from the one that holds `position` on."""
    earlier = [base for base in bases if base <= position]
    return bases[max(len(earlier) - 1, 0) :]


def _recover_segment(
    folder: Path, base: int, following: int | None, published_end: int, found: Recovery, disk: Disk
) -> None:
    path = segment_path(folder, base)
    data = read_segment(path, following - base if following is not None else None)
    readable_end = base
    for part in scan(data, base):
        if isinstance(part, Header):
            readable_end = part.position + part.size
            found.last_received_ns = max(found.last_received_ns, part.received_ns)
        elif part.end < base + len(data):
            _set_aside(folder, base, data, part, found)
    # The file's tail, after its last readable record: lost up to the published end, torn beyond it.
    owed_end = max(readable_end, following if following is not None else published_end)
    if owed_end > readable_end:
        _set_aside(folder, base, data, Gap(readable_end, owed_end), found)
    found.torn_bytes += max(base + len(data) - owed_end, 0)
    found.end = owed_end
    found.appendable = owed_end == readable_end
    _cut(path, min(owed_end - base, len(data)), disk)


def _set_aside(folder: Path, base: int, data: bytes, gap: Gap, found: Recovery) -> None:
    """Keep a copy of damaged bytes for examination; a second start over the same damage adds nothing."""
    path = folder / SET_ASIDE_NAME / f"{gap.position:020d}-{gap.end:020d}.bytes"
    if path.exists():
        return
    found.corrupt_bytes += gap.end - gap.position
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data[gap.position - base : gap.end - base])
    except OSError:
        return  # a full disk must not stop the start; the bytes are still in their segment
    found.set_aside.append(path)


def _cut(path: Path, length: int, disk: Disk) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        if os.fstat(fd).st_size > length:
            os.ftruncate(fd, length)
        disk.sync(fd)
    finally:
        os.close(fd)
