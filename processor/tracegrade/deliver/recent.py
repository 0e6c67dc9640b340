"""The results that this process journalled last, kept for sinks that are up to date.

Reading, checking and decoding a record costs more than making it. A sink whose position is the end of one of these
batches takes the next one from here. A sink that is behind, and every sink after a start, reads the journal. A batch is
removed once every sink has taken it: its memory is used for the next ones, while still in the processor's cache.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from tracegrade.model.trace_result import TraceResult

MAX_RECORDS = 4096  # about 100 MB at 20 KB each: a sink that is further behind reads the journal


class RecentResults:
    """The newest batches of the results journal by their first position. One thread adds, any thread takes."""

    def __init__(self, end: int) -> None:
        """Start without batches; `end` is where the journal's next record will begin."""
        self._lock = threading.Lock()
        self._end = end
        self._batches: deque[tuple[int, int, Sequence[TraceResult]]] = deque()  # begin, end, records
        self._records = 0
        self._taken: dict[str, int] = {}  # by sink: its position
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each batch is added, in the adding thread; it must neither wait nor raise."""
        self._listeners.append(listener)

    def add(self, batch: Sequence[TraceResult], end: int) -> None:
        """`batch` is durable now and ends at `end`."""
        with self._lock:
            self._batches.append((self._end, end, batch))
            self._end = end
            self._records += len(batch)
            while self._records > MAX_RECORDS and len(self._batches) > 1:
                self._records -= len(self._batches.popleft()[2])
        for listener in self._listeners:
            listener()

    def taken(self, sink: str, position: int) -> None:
        """`sink` needs nothing before `position`. A sink must say this once before it takes anything."""
        with self._lock:
            self._taken[sink] = position
            oldest = min(self._taken.values())
            while self._batches and self._batches[0][1] <= oldest:
                self._records -= len(self._batches.popleft()[2])

    def forget(self) -> None:
        """Remove all batches: the journal has other records at their positions now."""
        with self._lock:
            self._batches.clear()
            self._records = 0

    def read(self, position: int, batch: Sequence[TraceResult], end: int) -> None:
        """`batch` was read from the journal by a sink, from `position` to `end`."""

    def after(self, position: int) -> tuple[Sequence[TraceResult], int] | None:
        """The batch that begins at `position`, and its end; None when it is not held."""
        with self._lock:
            for begin, end, batch in reversed(self._batches):
                if begin == position:
                    return batch, end
                if begin < position:
                    return None
        return None


class RecentReads(RecentResults):
    """The newest batches that sinks read from a journal which another process writes: read and decoded once for all.

    The sink that is furthest reads the journal, and the others take from here what it read, in the same batches.
    """

    def __init__(self, segments: Callable[[], int]) -> None:
        """Start without batches; `segments` changes whenever records of the journal may have been erased."""
        super().__init__(0)
        self._segments = segments
        self._read_of = segments()

    def read(self, position: int, batch: Sequence[TraceResult], end: int) -> None:
        """Keep what the furthest sink read."""
        with self._lock:
            is_furthest = not self._batches or position >= self._batches[-1][1]
            if is_furthest and position < end:
                self._end = position
        if is_furthest and position < end:
            self.add(batch, end)

    def after(self, position: int) -> tuple[Sequence[TraceResult], int] | None:
        """See there; nothing if the journal was rewritten since."""
        if (segments := self._segments()) != self._read_of:
            self._read_of = segments
            self.forget()
        return super().after(position)
