"""The queue of the journal's writing thread: appends, which are committed together, and calls between two commits."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from tracegrade.journal.append import Append, answer
from tracegrade.journal.errors import JournalRefused


class QueuedWork(NamedTuple):
    """Waiting appends and calls, in their order; `closing` says that no more will come."""

    appends: list[Append]
    calls: list[tuple[Callable[[], None], "Future[None]"]]
    closing: bool


class CommitQueue:
    """Filled by any thread, emptied by one."""

    def __init__(self) -> None:
        self.waiting_bytes = 0  # with those being committed
        self._wake = threading.Condition(threading.Lock())
        self._appends: list[Append] = []
        self._calls: list[tuple[Callable[[], None], Future[None]]] = []
        self._closing = False

    def add(self, append: Append, check_room: Callable[[int, int], None]) -> None:
        """Queue `append` to be committed.

        Args:
            append: answered when it is committed, or refused by the disk.
            check_room: raises when there is no room for this many more bytes (second) besides those that wait (first).

        Raises:
            JournalRefused: by `check_room`, or shutting down.
        """
        with self._wake:
            if self._closing:
                raise JournalRefused("shutting_down", "the journal is shutting down; the sender should retry")
            check_room(self.waiting_bytes, append.size)
            self._appends.append(append)
            self.waiting_bytes += append.size
            if len(self._appends) == 1:
                self._wake.notify()

    def call(self, call: Callable[[], None]) -> None:
        """Let the writing thread make `call` between two commits; its exceptions are raised here.

        Raises:
            JournalRefused: shutting down.
        """
        future: Future[None] = Future()
        with self._wake:
            if self._closing:
                raise JournalRefused("shutting_down", "the journal is shutting down; try again")
            self._calls.append((call, future))
            self._wake.notify()
        future.result()

    def take(self, timeout_s: float) -> QueuedWork:
        """Everything that waits; waits up to this time for something."""
        with self._wake:
            if not self._appends and not self._calls and not self._closing:
                self._wake.wait(timeout_s)
            return self._take()

    def committed(self, size: int) -> None:
        """Note that this many of the taken bytes are durable or refused."""
        with self._wake:
            self.waiting_bytes -= size

    def close(self) -> None:
        """Refuse everything from now on."""
        with self._wake:
            self._closing = True
            self._wake.notify()

    def refuse_rest(self) -> None:
        """Refuse everything queued, as the writing thread has ended, so that no caller waits for ever."""
        with self._wake:
            self._closing = True
            rest = self._take()
        answer(
            rest.appends, JournalRefused("journal_unavailable", "the journal's writer has ended; restart this process")
        )
        for _, future in rest.calls:
            future.set_exception(JournalRefused("shutting_down", "the journal is shutting down; try again"))

    def _take(self) -> QueuedWork:
        work = QueuedWork(self._appends, self._calls, self._closing)
        self._appends, self._calls = [], []
        return work
