"""How far work over stored traces is: a bar for each thing that takes long."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

Advance: TypeAlias = Callable[[int], None]

Progress: TypeAlias = Callable[[str, int | None], AbstractContextManager[Advance]]
"""Begins a bar with this label and total; ends it with the context, in which steps are told."""


@contextmanager
def unseen(label: str, total: int | None) -> Iterator[Advance]:
    """No bar."""
    yield lambda steps: None


class ScanProgress:
    """How much of the stored traces is looked through, newest first, in traces.

    How many of them are asked for is known only when all are read. The numbers that they may have are known, and
    so is how many are read at most: what is further along of the two is told.
    """

    def __init__(self, bounds: tuple[int, int] | None, most: int) -> None:
        """Look through the numbers from the first of `bounds` to the second, until `most` traces are read."""
        low, self._high = bounds or (1, 0)
        self._numbers = self._high - low + 1
        self.total = min(self._numbers, most)
        self._done = 0

    def steps_to(self, number: int, traces: int) -> int:
        """The steps from the last call to the trace of this `number`, which is among the first `traces` read."""
        passed = (self._high - number + 1) * self.total // self._numbers
        done = max(self._done, min(self.total, max(traces, passed)))
        steps, self._done = done - self._done, done
        return steps
