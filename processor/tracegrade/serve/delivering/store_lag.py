"""The condition ``store_behind``: results wait long to be stored, though the store takes some."""

import time
from collections import deque
from collections.abc import Callable, Mapping

from tracegrade.telemetry.conditions import Conditions

BEHIND_AFTER_S = 10.0

Positions = Mapping[str, tuple[int, int]]
"""By results journal, up to where the store holds its results, and where they end."""


class StoreLag:
    """Looks how long results wait for the store."""

    def __init__(
        self,
        positions: Callable[[], Positions],
        conditions: Conditions,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; `monotonic_s` is for tests."""
        self._positions = positions
        self._conditions = conditions
        self._monotonic_s = monotonic_s
        # By journal: when it was first seen to end there, of ends up to which not everything is stored.
        self._ends: dict[str, deque[tuple[float, int]]] = {}

    def poll(self) -> None:
        """Look once; call it every second or so. A store that takes nothing has a condition of its own."""
        now_s = self._monotonic_s()
        positions = self._positions()
        self._ends = {name: self._ends.get(name, deque()) for name in positions}
        oldest_s, waiting = now_s, 0
        for name, (stored, end) in positions.items():
            ends = self._ends[name]
            if not ends or end > ends[-1][1]:
                ends.append((now_s, end))
            while ends and ends[0][1] <= stored:
                ends.popleft()
            if ends:
                oldest_s = min(oldest_s, ends[0][0])
                waiting += end - stored
        message = None
        if now_s - oldest_s > BEHIND_AFTER_S and not self._conditions.holds("store_unavailable"):
            message = f"results of {now_s - oldest_s:.0f} s ago are not stored; {waiting / 2**20:.1f} MiB wait"
        self._conditions.say("store_behind", message)
