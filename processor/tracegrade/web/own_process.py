"""Work in a process of its own: seconds of CPU and much memory, which other pages must not wait for.

The process yields to the judge, and is ended when it takes too long, or when the page stops.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any, TypeVar

from tracegrade.model.errors import TraceGradeError

LONGEST_S = 120.0
RETRY_S = 5

_LOOK_EVERY_S = 0.1
_NICENESS = 10

T = TypeVar("T")


class Busy(TraceGradeError):
    """As much is being worked on as is at one time."""


class OwnProcess:
    """Does one kind of work, with at most one such process at a time."""

    def __init__(
        self, what: str, error: type[TraceGradeError] = TraceGradeError, hint: str = "", longest_s: float = LONGEST_S
    ) -> None:
        """Do nothing yet.

        Args:
            what: is done here, such as ``backtest``.
            error: is raised where it cannot be done.
            hint: says what to do where it takes longer than `longest_s`.
            longest_s: so long a process has.
        """
        self._what, self._error, self._hint = what, error, hint
        self._one = threading.Lock()
        self._longest_s = longest_s

    @property
    def is_busy(self) -> bool:
        """Whether something is being worked on."""
        return self._one.locked()

    def call(self, work: Callable[..., T], *arguments: Any, is_stopping: Callable[[], bool]) -> T:
        """What `work` returns in a process of its own.

        Args:
            work: a function of a module, so that the process finds it too.
            arguments: plain data.
            is_stopping: whether to give up.

        Raises:
            Busy: the same kind of work is being done already.
            TraceGradeError: as ``error``, with the message of the one that `work` raised; or it was not done in time.
        """
        if not self._one.acquire(blocking=False):
            raise Busy(f"another {self._what} is being made; try again in a moment")
        try:
            return self._call(work, arguments, is_stopping)
        finally:
            self._one.release()

    def _call(self, work: Callable[..., T], arguments: tuple[Any, ...], is_stopping: Callable[[], bool]) -> T:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_work, args=(theirs, work, arguments), daemon=True, name=self._what)
        process.start()
        theirs.close()
        ends_s = time.monotonic() + self._longest_s
        try:
            while not ours.poll(_LOOK_EVERY_S):
                if is_stopping() or time.monotonic() > ends_s:
                    raise self._error(f"not done within {self._longest_s:g} s: {self._hint}")
            is_refused, found = ours.recv()
        except EOFError:
            process.join()
            raise RuntimeError(f"the process of a {self._what} ended with code {process.exitcode}") from None
        finally:
            process.kill()
            process.join()
            ours.close()
        if is_refused:
            raise self._error(found)
        result: T = found
        return result


def _work(pipe: Pipe, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """What the other process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C, which a terminal sends to all, is for `serve`
    os.nice(_NICENESS)
    answer: tuple[bool, Any]
    try:
        answer = (False, work(*arguments))
    except TraceGradeError as error:
        answer = (True, str(error))
    pipe.send(answer)
    pipe.close()
