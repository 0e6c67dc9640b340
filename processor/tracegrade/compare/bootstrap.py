"""How shares of results that go together, such as those of one session, differ, by the bootstrap over clusters."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from tracegrade.bootstrap import FEWEST, SEED, TIMES, Clusters, drawn_sums, rates, with_both
from tracegrade.compare.shares import Difference

_TIMES_A_RULE = 80  # the smallest p is 2 / (times + 1), and must reach 0.05 / rules

PairCluster: TypeAlias = tuple[float, float, float]
"""Of one cluster of pairs: weighted sums of the share that passes on A and on B, and the sum of the weights."""


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
    both = with_both(side)
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
    return max(TIMES, _TIMES_A_RULE * rules - 1)


def clustered(a: Clusters, b: Clusters, times: int = TIMES) -> Difference | None:
    """How the share of `b` differs from that of `a`, of other subjects; None with fewer than `FEWEST` clusters."""
    if min(len(a.clusters), len(b.clusters)) < FEWEST:
        return None
    random = Random(SEED)
    rates_a, rates_b = (rates(drawn_sums(with_both(side), times, random)) for side in (a, b))
    differences = [there - here for here, there in zip(rates_a, rates_b, strict=True)]
    return _difference(b.rate - a.rate, differences)


def clustered_pairs(clusters: Sequence[PairCluster], times: int = TIMES) -> Difference | None:
    """How the share on B differs from that on A, by pairs; None with fewer than `FEWEST` clusters."""
    if len(clusters) < FEWEST:
        return None
    passes_a, passes_b, weight = (sum(column) for column in zip(*clusters, strict=True))
    counted = Counter[Sequence[float]](clusters)
    average = weight / len(clusters)
    kinds = dict(counted) | {kind: counted[kind] + number for kind, number in _added_pairs(average).items()}
    sums_a, sums_b, weights = drawn_sums(kinds, times, Random(SEED))
    differences = [
        (there - here) / size if size else 0.0 for here, there, size in zip(sums_a, sums_b, weights, strict=True)
    ]
    return _difference((passes_b - passes_a) / weight, differences)


def _added_pairs(average: float) -> dict[Sequence[float], float]:
    """The clusters of pairs that are added: half of each kind."""
    return {(a * average, b * average, average): 0.5 for a in (0, 1) for b in (0, 1)}


def _difference(value: float, drawn: list[float]) -> Difference:
    """The difference with its percentile interval; p is twice the part of drawings on the other side of 0."""
    drawn.sort()
    rank = len(drawn) + 1
    tail = round(rank * 0.025)
    not_below = sum(found >= 0 for found in drawn) + 1
    not_above = sum(found <= 0 for found in drawn) + 1
    p = min(1.0, 2 * (not_below if value < 0 else not_above) / rank) if value else 1.0
    return Difference(value, drawn[tail - 1], drawn[-tail], p, "bootstrap")
