"""The hand-over between the judging thread and the delivery thread: they share nothing else.

Judging hands over durable batches of results; delivery says up to where the store holds them, and when it failed.
"""

import threading
from collections import deque

from tracegrade.deliver.recent import RecentResults


class HandOver:
    """The state that both threads of the judge process share.

    ``recent`` holds the batches for the sinks. ``stopping`` is set, from any thread, when judging must end.
    """

    def __init__(self, end: int) -> None:
        """Start empty; `end` is where the next record of the results journal will begin."""
        self.recent = RecentResults(end)
        self.stopping = threading.Event()
        self._stored = threading.Condition()
        self._stored_to = 0
        self._judged: deque[tuple[int, int]] = deque()  # the judge's clock, and the end of its results by then
        self._judged_to_ns = 0
        self._failure: BaseException | None = None

    @property
    def stored_to(self) -> int:
        """The store holds every result before this position of the results journal."""
        return self._stored_to

    def judged(self, clock_ns: int, end: int) -> None:
        """Everything up to the time `clock_ns` is judged, and its results are before `end`; called by judging."""
        with self._stored:
            if self._judged and self._judged[-1][1] == end:
                self._judged.pop()
            self._judged.append((clock_ns, end))

    def stored_to_ns(self) -> int:
        """The store holds every result of what came up to this time, ns since 1970 UTC; 0 until that is known."""
        with self._stored:
            while self._judged and self._judged[0][1] <= self._stored_to:
                self._judged_to_ns = self._judged.popleft()[0]
            return self._judged_to_ns

    def store_holds(self, position: int) -> None:
        """The store holds every result before `position`; called by the delivery thread."""
        with self._stored:
            self._stored_to = position
            self._stored.notify_all()

    def fail(self, error: BaseException) -> None:
        """Delivery has ended with `error`, so judging must end too; called by the delivery thread."""
        with self._stored:
            self._failure = error
            self.stopping.set()
            self._stored.notify_all()

    def wait_until_stored(self, end: int, within_s: float) -> bool:
        """Wait at most `within_s` seconds until the store holds every result before `end`. Returns whether it does.

        Raises:
            BaseException: the error that ended delivery.
        """
        with self._stored:
            self._stored.wait_for(lambda: self._stored_to >= end or self._failure is not None, within_s)
            if self._failure is not None:
                raise self._failure
            return self._stored_to >= end
