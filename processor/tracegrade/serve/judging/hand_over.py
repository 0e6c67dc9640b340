"""The hand-over from judging to delivery: judging adds durable results, and asks up to where the store holds them.

`MemoryHandOver` joins the two threads of a judge that does both.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from tracegrade.deliver.recent import RecentResults
from tracegrade.model.trace_result import TraceResult


class HandOver(Protocol):
    """The side of judging. ``stopping`` is set, from any thread, when judging must end."""

    stopping: threading.Event

    @property
    def stored_to(self) -> int:
        """The store holds every result before this position of the results journal."""
        ...

    @property
    def confirmed_to(self) -> int:
        """Every sink that must lose nothing has every result before this position; 0 until that is known."""
        ...

    def add(self, batch: Sequence[TraceResult], end: int) -> None:
        """`batch` is durable in the results journal now, and ends at `end`."""
        ...

    def forget(self) -> None:
        """The results journal has other records at their positions now: what was added is not handed over."""
        ...

    def judged(self, clock_ns: int, end: int) -> None:
        """Everything up to the time `clock_ns` is judged, and its results are before `end`."""
        ...

    def wait_until_stored(self, end: int, within_s: float) -> bool:
        """Wait at most `within_s` seconds until the store holds every result before `end`. Returns whether it does.

        Raises:
            BaseException: the error that ended delivery in this process.
        """
        ...


class StoredClock:
    """Up to which time everything that came is judged and stored, of one results journal. For one thread at a time."""

    def __init__(self) -> None:
        self._judged: deque[tuple[int, int]] = deque()  # the judge's clock, and the end of its results by then
        self._judged_to_ns = 0

    def judged(self, clock_ns: int, end: int) -> None:
        """Everything up to the time `clock_ns` is judged, and its results are before `end`."""
        if self._judged and self._judged[-1][1] == end:
            self._judged.pop()
        self._judged.append((clock_ns, end))

    def stored_to_ns(self, stored_to: int) -> int:
        """The time, ns since 1970 UTC, if the store holds every result before `stored_to`; 0 until that is known."""
        while self._judged and self._judged[0][1] <= stored_to:
            self._judged_to_ns = self._judged.popleft()[0]
        return self._judged_to_ns


class MemoryHandOver:
    """The state that both threads of one judge process share: `HandOver`, and the side of delivery.

    ``recent`` holds the batches for the sinks.
    """

    def __init__(self, end: int, *, has_left: bool = True) -> None:
        """Start empty; `end` is where the next record of the results journal will begin.

        `has_left`: the store holds all results of earlier sets of judges; if not, `left_stored` tells so.
        """
        self.recent = RecentResults(end)
        self.stopping = threading.Event()
        self._stored = threading.Condition()
        self._stored_to = 0
        self._confirmed_to = 0
        self._has_left = has_left
        self._clock = StoredClock()
        self._failure: BaseException | None = None

    @property
    def stored_to(self) -> int:
        """As in `HandOver`."""
        return self._stored_to

    @property
    def confirmed_to(self) -> int:
        """As in `HandOver`."""
        return self._confirmed_to

    def add(self, batch: Sequence[TraceResult], end: int) -> None:
        """As in `HandOver`."""
        self.recent.add(batch, end)

    def forget(self) -> None:
        """As in `HandOver`."""
        self.recent.forget()

    def judged(self, clock_ns: int, end: int) -> None:
        """As in `HandOver`."""
        with self._stored:
            self._clock.judged(clock_ns, end)

    def wait_until_stored(self, end: int, within_s: float) -> bool:
        """As in `HandOver`."""
        with self._stored:
            self._stored.wait_for(lambda: self._holds(end) or self._failure is not None, within_s)
            if self._failure is not None:
                raise self._failure
            return self._holds(end)

    def stored_to_ns(self) -> int:
        """The store holds every result of what came up to this time, ns since 1970 UTC; 0 until that is known."""
        with self._stored:
            return self._clock.stored_to_ns(self._stored_to)

    def store_holds(self, position: int) -> None:
        """The store holds every result before `position`; called by delivery."""
        with self._stored:
            self._stored_to = position
            self._stored.notify_all()

    def confirm(self, position: int) -> None:
        """Every sink that must lose nothing has every result before `position`; called by delivery."""
        self._confirmed_to = position

    def left_stored(self) -> None:
        """The store holds all results that earlier sets of judges left; called by delivery."""
        with self._stored:
            self._has_left = True
            self._stored.notify_all()

    def failed(self, error: BaseException) -> None:
        """Delivery has ended with `error`, so judging must end too; called by delivery."""
        with self._stored:
            self._failure = error
            self.stopping.set()
            self._stored.notify_all()

    def _holds(self, end: int) -> bool:
        return self._has_left and self._stored_to >= end
