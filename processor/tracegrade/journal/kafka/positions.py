"""Where a judge has come to in one partition, and how far that may be committed.

A partition has two offsets, one a topic, and a judge counts in one number: the sum of both, which grows with each
message and is the same again when a message is read again in the same order. Offsets of some of these sums are
remembered, so that the sum at which the oldest open trace began can be said in offsets.

Committed is only what needs not be read again: what lies before the oldest open trace, once all sinks that must lose
nothing have what was judged until then. So nothing on a judge's own disk is needed after it is lost.
"""

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

Offsets = dict[str, int]  # topic -> offset of the next message

# Fewer checkpoints than messages: an hour of open traces would be millions. A restart reads at most so many too many.
_CHECKPOINT_EVERY = 64


class _Promise(NamedTuple):
    """Once all results before ``results_end`` are confirmed, ``offsets`` may be committed."""

    results_end: int
    offsets: Offsets


class PartitionPositions:
    """Read, needed and confirmed positions of one partition, from its assignment on."""

    def __init__(self, starts: Mapping[str, int]) -> None:
        """Begin at these offsets, by topic."""
        self._next = dict(starts)
        self._checkpoints: deque[tuple[int, Offsets]] = deque([(self.read_to, dict(starts))])
        self._promises: deque[_Promise] = deque()
        self._committed = dict(starts)

    @property
    def read_to(self) -> int:
        """The sum of the offsets at which reading goes on."""
        return sum(self._next.values())

    def read(self, topic: str, offset: int) -> tuple[int, int]:
        """Note that this message is read now. Returns the positions before and after it."""
        begin = self.read_to
        if begin - self._checkpoints[-1][0] >= _CHECKPOINT_EVERY:
            self._checkpoints.append((begin, dict(self._next)))
        self._next[topic] = offset + 1
        return begin, self.read_to

    def judged(self, oldest_needed: int | None, results_end: int) -> None:
        """All results so far are before `results_end` in the results journal.

        Args:
            oldest_needed: the position at which the oldest open trace began; None when none is open. It never grows
                smaller.
            results_end: grows.
        """
        offsets = dict(self._next) if oldest_needed is None else self._at(oldest_needed)
        if self._promises and self._promises[-1].results_end == results_end:
            self._promises.pop()
        self._promises.append(_Promise(results_end, offsets))

    def _at(self, position: int) -> Offsets:
        """The offsets at `position`, or a little before it."""
        while len(self._checkpoints) > 1 and self._checkpoints[1][0] <= position:
            self._checkpoints.popleft()
        return self._checkpoints[0][1]

    def to_commit(self, confirmed_to: int) -> Offsets:
        """The offsets to commit when all results before `confirmed_to` are confirmed; empty when they were before."""
        offsets = self._committed
        while self._promises and self._promises[0].results_end <= confirmed_to:
            offsets = self._promises.popleft().offsets
        new = {topic: offset for topic, offset in offsets.items() if offset > self._committed[topic]}
        self._committed |= new
        return new
