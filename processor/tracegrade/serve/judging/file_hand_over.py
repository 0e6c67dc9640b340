"""The hand-over of one of several judges: it writes its results journal, and one delivery process reads all of them."""

import threading
import time
from collections.abc import Callable, Sequence

from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.journal.position import Position
from tracegrade.model.trace_result import TraceResult
from tracegrade.pipeline.data_folder import DataFolder, Judge
from tracegrade.serve.judging.judged_to import JudgedTo

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
