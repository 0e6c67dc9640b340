"""The bootstrap over whole clusters: of results that go together, such as those of one session.

A cluster is drawn again a Poisson(1) number of times, as in drawing with replacement, but each by itself. So m
clusters that are alike are drawn Poisson(m) times together, and 20,000 sessions take as long as the few kinds of them.

Where all clusters of a side are alike, drawing them again shows no chance at all. So each side has one passing and one
failing cluster more, as A. Agresti and B. Caffo (2000) and A. Agresti and Y. Min (2005) add them for single results.

Source: A. C. Davison and D. V. Hinkley, Bootstrap methods and their application, 1997, section 3.8 (clusters);
J. A. Hanley and B. MacGibbon, Creating non-parametric bootstrap samples using Poisson frequencies, 2006.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import exp, lgamma, log, sqrt
from random import Random
from typing import TypeAlias

SEED = 20_261_123
"""The same data give the same numbers."""

FEWEST = 6
"""With fewer clusters nothing can be told: also of 5 pairs that all changed, the exact test says p = 0.06."""

TIMES = 1999  # one more is a multiple of 40, so that both ends of the interval are values that were drawn

Cluster: TypeAlias = tuple[float, float]
"""Of one cluster of a side: the sum of the weights of its passes, and of its fails."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of one side; ``ratio`` is how often a pass is kept for each fail that is."""

    clusters: Sequence[Cluster]
    ratio: float = 1.0

    @property
    def rate(self) -> float:
        """The share of passes."""
        passes = sum(cluster[0] for cluster in self.clusters)
        return passes / (passes + sum(cluster[1] for cluster in self.clusters))


def mean_interval(side: Clusters, times: int = TIMES) -> tuple[float, float] | None:
    """The 95 % percentile interval of the share of `side`; None with fewer than `FEWEST` clusters.

    Of scores from 0 to 1, a cluster is their sum and the sum of what each lacks; the share is then their mean.
    """
    if len(side.clusters) < FEWEST:
        return None
    drawn = sorted(rates(drawn_sums(with_both(side), times, Random(SEED))))
    tail = round((len(drawn) + 1) * 0.025)
    return drawn[tail - 1], drawn[-tail]


def with_both(side: Clusters) -> dict[Sequence[float], float]:
    """How many clusters of each kind there are, with one more that passes and one that fails, as large as others."""
    passes, fails = (sum(column) for column in zip(*side.clusters, strict=True))
    # As many as would have been kept of an average cluster if all of it passed, or failed.
    size = (passes * side.ratio + fails) / len(side.clusters)
    kinds: dict[Sequence[float], float] = dict(Counter(side.clusters))
    for kind in ((size / side.ratio, 0.0), (0.0, size)):
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def drawn_sums(kinds: Mapping[Sequence[float], float], times: int, random: Random) -> list[list[float]]:
    """The sums over the clusters of each drawing: a list for each part of a cluster."""
    ordered = sorted(kinds.items())  # so that the order of results does not matter
    sums = [[0.0] * times for _ in ordered[0][0]]
    for kind, count in ordered:
        numbers, weights = _poisson(count)
        drawn = random.choices(numbers, cum_weights=weights, k=times)
        for place, value in enumerate(kind):
            if value:
                sums[place] = [total + value * number for total, number in zip(sums[place], drawn, strict=True)]
    return sums


@lru_cache(maxsize=1024)
def _poisson(mean: float) -> tuple[range, Sequence[float]]:
    """The numbers that a Poisson distribution gives, and their cumulative probabilities."""
    reach = 9 * sqrt(mean) + 20
    numbers = range(max(0, int(mean - reach)), int(mean + reach) + 1)
    return numbers, list(accumulate(exp(number * log(mean) - mean - lgamma(number + 1)) for number in numbers))


def rates(sums: Sequence[Sequence[float]]) -> Iterable[float]:
    """The share of passes of each drawing; a half of one that drew nothing."""
    passes, fails = sums
    return (good / (good + bad) if good + bad else 0.5 for good, bad in zip(passes, fails, strict=True))
