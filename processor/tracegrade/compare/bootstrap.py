"""Results that go together, such as those of one session: the bootstrap over whole clusters.

A cluster is drawn again a Poisson(1) number of times, as in drawing with replacement, but each by itself. So m
clusters that are alike are drawn Poisson(m) times together, and 20,000 sessions take as long as the few kinds of them.

Where all clusters of a side are alike, drawing them again shows no chance at all. So each side has one passing and one
failing cluster more, as A. Agresti and B. Caffo (2000) and A. Agresti and Y. Min (2005) add them for single results.

Source: A. C. Davison and D. V. Hinkley, Bootstrap methods and their application, 1997, section 3.8 (clusters);
J. A. Hanley and B. MacGibbon, Creating non-parametric bootstrap samples using Poisson frequencies, 2006.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import exp, lgamma, log, sqrt
from random import Random
from typing import TypeAlias

from tracegrade.compare.shares import Difference

SEED = 20_261_123
"""The same data give the same numbers."""

FEWEST = 6
"""With fewer clusters nothing can be told: also of 5 pairs that all changed, the exact test says p = 0.06."""

_TIMES = 1999  # one more is a multiple of 40, so that both ends of the interval are values that were drawn
_TIMES_A_RULE = 80  # the smallest p is 2 / (times + 1), and must reach 0.05 / rules

Cluster: TypeAlias = tuple[float, float]
"""Of one cluster of a side: the sum of the weights of its passes, and of its fails."""

PairCluster: TypeAlias = tuple[float, float, float]
"""Of one cluster of pairs: weighted sums of the share that passes on A and on B, and the sum of the weights."""


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


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the drawings of a share reach: sums over clusters of what passes, ``y``, and of what there is, ``w``.

    Of pairs, ``y`` is what passes on B less what passes on A. The last five are of the clusters that are added.
    """

    y: float
    w: float
    yy: float
    yw: float
    ww: float
    added: tuple[float, float, float, float, float]

    def variance(self, times: float) -> float:
        """That of the drawings with so many times as many clusters (by linearisation)."""
        own = (self.y, self.w, self.yy, self.yw, self.ww)
        return _variance(*(times * one + more for one, more in zip(own, self.added, strict=True)))

    @property
    def of_share(self) -> float:
        """The variance of the share itself, of so many clusters like these; the added ones have no part in it."""
        return _variance(self.y, self.w, self.yy, self.yw, self.ww)


def _variance(y: float, w: float, yy: float, yw: float, ww: float) -> float:
    share = y / w
    return max(0.0, yy - 2 * share * yw + share * share * ww) / (w * w)


def spread_of(side: Clusters) -> Spread:
    """That of the share of one side."""
    own = Counter[Sequence[float]](side.clusters)
    both = _with_both(side)
    added = {kind: count - own[kind] for kind, count in both.items() if count != own[kind]}
    return _spread(own, added, lambda kind: (kind[0], kind[0] + kind[1]))


def spread_of_pairs(clusters: Sequence[PairCluster]) -> Spread:
    """That of the difference of the shares of pairs."""
    average = sum(cluster[2] for cluster in clusters) / len(clusters)
    return _spread(Counter(clusters), _added_pairs(average), lambda kind: (kind[1] - kind[0], kind[2]))


def _spread(
    own: Mapping[Sequence[float], float],
    added: Mapping[Sequence[float], float],
    of: Callable[[Sequence[float]], tuple[float, float]],
) -> Spread:
    def sums(kinds: Mapping[Sequence[float], float]) -> tuple[float, float, float, float, float]:
        rows = [
            (count * y, count * w, count * y * y, count * y * w, count * w * w)
            for (y, w), count in ((of(kind), count) for kind, count in kinds.items())
        ]
        y, w, yy, yw, ww = (sum(column) for column in zip(*rows, strict=True))
        return y, w, yy, yw, ww

    return Spread(*sums(own), added=sums(added))


def times_for(rules: int) -> int:
    """How often to draw, so that a p-value can be small enough for so many rules."""
    return max(_TIMES, _TIMES_A_RULE * rules - 1)


def clustered(a: Clusters, b: Clusters, times: int = _TIMES) -> Difference | None:
    """How the share of `b` differs from that of `a`, of other subjects; None with fewer than `FEWEST` clusters."""
    if min(len(a.clusters), len(b.clusters)) < FEWEST:
        return None
    random = Random(SEED)
    rates_a, rates_b = (_rates(_drawn(_with_both(side), times, random)) for side in (a, b))
    differences = [there - here for here, there in zip(rates_a, rates_b, strict=True)]
    return _difference(b.rate - a.rate, differences)


def clustered_pairs(clusters: Sequence[PairCluster], times: int = _TIMES) -> Difference | None:
    """How the share on B differs from that on A, by pairs; None with fewer than `FEWEST` clusters."""
    if len(clusters) < FEWEST:
        return None
    passes_a, passes_b, weight = (sum(column) for column in zip(*clusters, strict=True))
    counted = Counter[Sequence[float]](clusters)
    average = weight / len(clusters)
    kinds = dict(counted) | {kind: counted[kind] + number for kind, number in _added_pairs(average).items()}
    sums_a, sums_b, weights = _drawn(kinds, times, Random(SEED))
    differences = [
        (there - here) / size if size else 0.0 for here, there, size in zip(sums_a, sums_b, weights, strict=True)
    ]
    return _difference((passes_b - passes_a) / weight, differences)


def _added_pairs(average: float) -> dict[Sequence[float], float]:
    """The clusters of pairs that are added: half of each kind."""
    return {(a * average, b * average, average): 0.5 for a in (0, 1) for b in (0, 1)}


def mean_interval(side: Clusters, times: int = _TIMES) -> tuple[float, float] | None:
    """The 95 % percentile interval of the share of `side`; None with fewer than `FEWEST` clusters.

    Of scores from 0 to 1, a cluster is their sum and the sum of what each lacks; the share is then their mean.
    """
    if len(side.clusters) < FEWEST:
        return None
    drawn = sorted(_rates(_drawn(_with_both(side), times, Random(SEED))))
    tail = round((len(drawn) + 1) * 0.025)
    return drawn[tail - 1], drawn[-tail]


def _with_both(side: Clusters) -> dict[Sequence[float], float]:
    """How many clusters of each kind there are, with one more that passes and one that fails, as large as others."""
    passes, fails = (sum(column) for column in zip(*side.clusters, strict=True))
    # As many as would have been kept of an average cluster if all of it passed, or failed.
    size = (passes * side.ratio + fails) / len(side.clusters)
    kinds: dict[Sequence[float], float] = dict(Counter(side.clusters))
    for kind in ((size / side.ratio, 0.0), (0.0, size)):
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def _drawn(kinds: Mapping[Sequence[float], float], times: int, random: Random) -> list[list[float]]:
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


def _rates(sums: Sequence[Sequence[float]]) -> Iterable[float]:
    passes, fails = sums
    return (good / (good + bad) if good + bad else 0.5 for good, bad in zip(passes, fails, strict=True))


def _difference(value: float, drawn: list[float]) -> Difference:
    """The difference with its percentile interval; p is twice the part of drawings on the other side of 0."""
    drawn.sort()
    rank = len(drawn) + 1
    tail = round(rank * 0.025)
    not_below = sum(found >= 0 for found in drawn) + 1
    not_above = sum(found <= 0 for found in drawn) + 1
    p = min(1.0, 2 * (not_below if value < 0 else not_above) / rank) if value else 1.0
    return Difference(value, drawn[tail - 1], drawn[-tail], p, "bootstrap")
