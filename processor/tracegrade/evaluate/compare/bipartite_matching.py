"""Calls without order paired with what is expected: as many pairs as possible."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tracegrade.evaluate.work import Work

Fits: TypeAlias = Mapping[int, float]


class Matching:
    """Calls without order paired with what is expected, as many as possible; each once.

    ``member_of`` is the call paired with an expected position. Grown one expected position at a time along augmenting
    paths: what was paired stays paired, perhaps with another call.
    """

    __slots__ = ("_group", "_index_of", "_work", "member_of")

    def __init__(self, group: Sequence[Fits], work: Work) -> None:
        self._group = group
        self._index_of: dict[int, int] = {}
        self._work = work
        self.member_of: dict[int, int] = {}

    @property
    def worth(self) -> float:
        """What the pairs are worth together."""
        return sum(self._group[member][index] for index, member in self.member_of.items())

    def add(self, index: int) -> bool:
        """Pair the expected position too, if some call is left for it or can be freed."""
        # Breadth first: each call is visited once, and no recursion goes deeper than Python's.
        came_from: dict[int, int] = {}
        queue = [index]
        for wanted in queue:
            self._work.spend(len(self._group))
            members = [m for m, fits in enumerate(self._group) if m not in came_from and wanted in fits]
            members.sort(key=lambda m: -self._group[m][wanted])
            for member in members:
                came_from[member] = wanted
                if member not in self._index_of:
                    self._flip(member, index, came_from)
                    return True
                queue.append(self._index_of[member])
        return False

    def _flip(self, member: int, index: int, came_from: Mapping[int, int]) -> None:
        while True:
            wanted = came_from[member]
            freed = self.member_of.get(wanted)
            self.member_of[wanted] = member
            self._index_of[member] = wanted
            if wanted == index or freed is None:
                return
            member = freed
