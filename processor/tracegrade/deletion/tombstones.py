"""The ids of deleted traces: what comes of them later is known by these, live and in replay.

One file, sorted, 24 bytes a trace: its id and when it was deleted. Looking one up takes no memory, however many they
are. One process writes it (receive, or whoever holds the journal's lock instead), any process reads.
"""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from tracegrade.deletion.files import replace_file

_ENTRY = Struct(">16sQ")


class Tombstones:
    """The tombstones as they were when this was made."""

    def __init__(self, path: Path) -> None:
        """Read what is at `path`; none where there is no file.

        Raises:
            OSError: it cannot be read.
        """
        self._path = path
        try:
            self._data = path.read_bytes()
        except FileNotFoundError:
            self._data = b""

    def __len__(self) -> int:
        return len(self._data) // _ENTRY.size

    def __contains__(self, trace_id: object) -> bool:
        if not isinstance(trace_id, bytes) or not self._data:
            return False
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            found = self._data[middle * _ENTRY.size : middle * _ENTRY.size + 16]
            if found == trace_id:
                return True
            if found < trace_id:
                low = middle + 1
            else:
                high = middle
        return False

    def add(self, trace_ids: Iterable[bytes], deleted_ns: int, *, forget_before_ns: int) -> None:
        """Add `trace_ids`, durably, and forget what was deleted before a time.

        Raises:
            OSError: the disk refused; the tombstones are as they were.
        """
        known = {
            trace_id: when_ns for trace_id, when_ns in _ENTRY.iter_unpack(self._data) if when_ns >= forget_before_ns
        }
        known.update(dict.fromkeys(trace_ids, deleted_ns))
        data = b"".join(_ENTRY.pack(trace_id, known[trace_id]) for trace_id in sorted(known))
        replace_file(self._path, data)
        self._data = data
