"""Up to which time judges have judged, as each of several says it, and up to which time the store holds the results.

Each judge writes a small file beside its results journal; delivery and all judges read them.
"""

import mmap
from collections.abc import Iterable
from pathlib import Path

from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.journal import slots
from tracegrade.journal.disk import create_filled
from tracegrade.journal.position import Position
from tracegrade.pipeline.data_folder import DataFolder, Judge
from tracegrade.serve.judging.hand_over import StoredClock

_FILE = "judged"


class JudgedTo:
    """The side of one judge: a store into shared memory, no system call."""

    def __init__(self, results: Path) -> None:
        path = results / _FILE
        create_filled(path, slots.FILE_BYTES)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), slots.FILE_BYTES)
        found = slots.newest(self._map[:])
        self._sequence = found[0] if found else 0

    def write(self, clock_ns: int, sessions_ns: int, end: int) -> None:
        """Traces are judged up to `clock_ns`, sessions up to `sessions_ns`; their results are before `end`."""
        self._sequence += 1
        offset, data = slots.pack(self._sequence, (clock_ns, sessions_ns, end))
        self._map[offset : offset + len(data)] = data

    def close(self) -> None:
        """Close the file."""
        self._map.close()


class StoredClocks:
    """Up to which time the store holds the results of every one of `judges`; used by one thread."""

    def __init__(self, folder: DataFolder, judges: Iterable[Judge]) -> None:
        self._of = [_OfJudge(folder, judge) for judge in judges]

    def traces_ns(self) -> int:
        """Every trace that closed up to this time, ns since 1970 UTC, is stored; 0 until that is known."""
        return min(of.poll()[0] for of in self._of)

    def sessions_ns(self) -> int:
        """So is every session, as it was at this time; never later than `traces_ns`."""
        return min(of.poll()[1] for of in self._of)


class _OfJudge:
    def __init__(self, folder: DataFolder, judge: Judge) -> None:
        self._path = folder.results(judge) / _FILE
        self._position = Position(folder.position_in(judge.results, SqlSink.name))
        self._traces = StoredClock()
        self._sessions = StoredClock()

    def poll(self) -> tuple[int, int]:
        try:
            found = slots.newest(self._path.read_bytes())
        except FileNotFoundError:
            return 0, 0
        if found is not None:
            clock_ns, sessions_ns, end = found[1]
            self._traces.judged(clock_ns, end)
            self._sessions.judged(sessions_ns, end)
        stored_to = self._position.load() or 0
        return self._traces.stored_to_ns(stored_to), self._sessions.stored_to_ns(stored_to)
