"""One bound on the series that rules and senders name, over all metrics together: beyond it they count as ``other``.

Rules, evaluations, agents and services are names that others choose. Each of them costs whoever scrapes: an evaluation
of one agent of one service is 4 outcomes and a histogram, each line of which is a series in Prometheus.
"""

import threading
from collections.abc import Sequence

MAX_SERIES = 10_000
MAX_TENANTS = 20
MAX_NAMES = 10_000
"""The same of the store, for the names of agents, of services and of releases of one tenant."""
OTHER = "other"

Names = tuple[str, ...]

_EXACT = 0.8  # of the bound; the rest is for names that are less exact, of what does not fit
_MOST_REMEMBERED = 100_000  # of what does not fit, as hashes


class SeriesBound:
    """Gives out what there is room for. Thread-safe. What was given out is kept: a series does not change its name."""

    def __init__(self, most: int = MAX_SERIES) -> None:
        """Give out at most so many series, and one more of each metric, which is that of `OTHER`."""
        self._most = most
        self._lock = threading.Lock()
        self._given: set[tuple[str, Names]] = set()
        self._series = 0
        self._folded: set[int] = set()

    @property
    def series(self) -> int:
        """The number of series given out."""
        return self._series

    @property
    def folded(self) -> int:
        """How many different names did not fit, and are shown by less exact ones; counted up to 100,000."""
        return len(self._folded)

    def fit(self, metric: str, cost: int, names: Sequence[Names]) -> Names:
        """The first of `names` that there is room for.

        Args:
            metric: what the names are of: equal names of different metrics are different series.
            cost: how many series one of them is.
            names: from the most to the least exact; the last one always fits.
        """
        exact = (metric, names[0])
        with self._lock:
            if exact in self._given:
                return names[0]
            for place, name in enumerate(names):
                is_last = place == len(names) - 1
                if (metric, name) not in self._given:
                    room = self._most * (_EXACT if place < len(names) - 2 else 1) - self._series
                    if cost > room and not is_last:
                        continue
                    self._given.add((metric, name))
                    self._series += cost
                break
            if place and len(self._folded) < _MOST_REMEMBERED:
                self._folded.add(hash(exact))
            return name
