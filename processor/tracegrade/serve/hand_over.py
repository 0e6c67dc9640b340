"""The hand-over from the judging thread to the delivery thread, and back: nothing else passes between the two.

Judging hands over batches of results that are durable; delivery says how far the store holds them, and when it failed.
"""

import threading

from tracegrade.deliver.recent import RecentResults


class HandOver:
    """What both threads of the judge process share.

    ``recent`` holds the batches for the sinks. ``stopping`` is set, from any thread, when judging is to end.
    """

    def __init__(self, end: int) -> None:
        """`end`: where the next record of the results journal will begin."""
        self.recent = RecentResults(end)
        self.stopping = threading.Event()
        self._stored = threading.Condition()
        self._stored_to = 0
        self._failure: BaseException | None = None

    @property
    def stored_to(self) -> int:
        """The store holds every result before this position of the results journal."""
        return self._stored_to

    def store_holds(self, position: int) -> None:
        """The store holds every result before `position`; called by the delivery thread."""
        with self._stored:
            self._stored_to = position
            self._stored.notify_all()

    def fail(self, error: BaseException) -> None:
        """Delivery has ended by `error`, so judging must end too; called by the delivery thread."""
        with self._stored:
            self._failure = error
            self.stopping.set()
            self._stored.notify_all()

    def wait_until_stored(self, end: int, within_s: float) -> bool:
        """Whether the store holds every result before `end`, after at most `within_s` seconds of waiting.

        Raises:
            BaseException: what delivery failed with.
        """
        with self._stored:
            self._stored.wait_for(lambda: self._stored_to >= end or self._failure is not None, within_s)
            if self._failure is not None:
                raise self._failure
            return self._stored_to >= end
