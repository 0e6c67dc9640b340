"""The hand-over of one of several judges: it writes its results journal, and one delivery process reads all of them.

Up to which time each judge has judged, it writes to a small file beside its results journal; delivery and all judges
read these files.
"""

import mmap
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.journal import slots
from tracegrade.journal.disk import create_filled
from tracegrade.journal.position import Position
from tracegrade.model.trace_result import TraceResult
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


_LOOK_EVERY_S = 0.02


class FileHandOver:
    """A `HandOver` by files: what the store holds is the position of its sink in our results journal."""

    def __init__(self, folder: DataFolder, judge: Judge, sessions_ns: Callable[[], int] | None) -> None:
        """Begin; the results journal of `judge` is there.

        `sessions_ns`: sessions are judged up to this time; None where none are judged.
        """
        self.stopping = threading.Event()
        self._sessions_ns = sessions_ns
        self.failure: BaseException | None = None
        self._stored = Position(folder.position_in(judge.results, SqlSink.name))
        self._confirmed = confirmed_position(folder, judge)
        self._judged = JudgedTo(folder.results(judge))

    @property
    def stored_to(self) -> int:
        """As in `HandOver`."""
        return self._stored.load() or 0

    @property
    def confirmed_to(self) -> int:
        """As in `HandOver`."""
        return self._confirmed.load() or 0

    def add(self, batch: Sequence[TraceResult], end: int) -> None:
        """Nothing: delivery finds it in the results journal."""

    def forget(self) -> None:
        """Nothing: delivery reads the results journal as it is."""

    def judged(self, clock_ns: int, end: int) -> None:
        """As in `HandOver`."""
        self._judged.write(clock_ns, clock_ns if self._sessions_ns is None else self._sessions_ns(), end)

    def wait_until_stored(self, end: int, within_s: float) -> bool:
        """As in `HandOver`; that delivery has ended is not told, as its keeper starts it again."""
        deadline_s = time.monotonic() + within_s
        while self.stored_to < end:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or self.stopping.wait(min(_LOOK_EVERY_S, left_s)):
                return False
        return True

    def fail(self, error: BaseException) -> None:
        """What runs beside judging has ended with `error`, so judging must end too."""
        self.failure = error
        self.stopping.set()

    def close(self) -> None:
        """Close the file."""
        self._judged.close()


def confirmed_position(folder: DataFolder, judge: Judge) -> Position:
    """Where delivery says up to where every sink that must lose nothing has the results of `judge`."""
    return Position(folder.results(judge) / "confirmed")
