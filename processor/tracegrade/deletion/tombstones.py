"""The ids of deleted traces. Their late spans are recognised by these, live and in replay.

One file, sorted, 24 bytes a trace: its id and when it was deleted; then a mark and a checksum, which files of earlier
versions have none of. Looking one up takes no memory, however many they are. One process writes it (receive, or whoever
holds the journal's lock instead), any process reads.
"""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from zlib import crc32

from tracegrade.journal.files import replace_file

_ENTRY = Struct(">16sQ")
_END = Struct(">4sI")
_MARK = b"TSv2"


class Tombstones:
    """The tombstones as they were when this was made."""

    def __init__(self, path: Path) -> None:
        """Read what is at `path`; none where there is no file, and what is left of a damaged one.

        Raises:
            OSError: it cannot be read.
        """
        self._path = path
        try:
            written = path.read_bytes()
        except FileNotFoundError:
            written = b""
        self._data, self._is_damaged = _entries(written)

    @property
    def damage(self) -> str:
        """What is wrong with the file, or was with the one that `add` put aside; "" when nothing is."""
        damaged = self._path if self._is_damaged else self._put_aside
        if not self._is_damaged and not damaged.exists():
            return ""
        return (
            f"{damaged}: damaged; late spans of traces deleted before may be judged and shown again. Restore it from a "
            "backup if there is one, then remove it"
        )

    @property
    def _put_aside(self) -> Path:
        return self._path.with_name(f"{self._path.name}.damaged")

    def __len__(self) -> int:
        return len(self._data) // _ENTRY.size

    def __contains__(self, trace_id: object) -> bool:
        return isinstance(trace_id, bytes) and self.deleted_ns(trace_id) is not None

    def deleted_ns(self, trace_id: bytes) -> int | None:
        """When the trace was deleted, ns since 1970 UTC; None if it was not, or that is forgotten."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            found, when_ns = _ENTRY.unpack_from(self._data, middle * _ENTRY.size)
            if found == trace_id:
                return int(when_ns)
            if found < trace_id:
                low = middle + 1
            else:
                high = middle
        return None

    def add(self, trace_ids: Iterable[bytes], deleted_ns: int, *, forget_before_ns: int) -> None:
        """Add `trace_ids`, durably, and forget what was deleted before a time. A damaged file is put aside.

        Raises:
            OSError: the disk refused; the tombstones are as they were.
        """
        known = {
            trace_id: when_ns for trace_id, when_ns in _ENTRY.iter_unpack(self._data) if when_ns >= forget_before_ns
        }
        known.update(dict.fromkeys(trace_ids, deleted_ns))
        data = b"".join(_ENTRY.pack(trace_id, known[trace_id]) for trace_id in sorted(known))
        if self._is_damaged:
            self._path.replace(self._put_aside)
        replace_file(self._path, data + _END.pack(_MARK, crc32(data)))
        self._data, self._is_damaged = data, False


def _entries(written: bytes) -> tuple[bytes, bool]:
    """The entries of a file, and whether it is damaged; if so, the entries that can be read, sorted."""
    if len(written) % _ENTRY.size == _END.size:
        mark, checksum = _END.unpack_from(written, len(written) - _END.size)
        data = written[: -_END.size]
        if mark == _MARK and checksum == crc32(data):
            return data, False
    whole = written[: len(written) // _ENTRY.size * _ENTRY.size]
    entries = sorted(whole[at : at + _ENTRY.size] for at in range(0, len(whole), _ENTRY.size))
    data = b"".join(entries)
    return data, data != written  # one of an earlier version is sorted, and nothing else
