"""The same things judged on both sides: a two by two table, McNemar's exact test and Newcombe's interval for pairs.

Source: Q. McNemar, Note on the sampling error of the difference between correlated proportions, 1947; R. G. Newcombe,
Improved confidence intervals for the difference between binomial proportions based on paired data, 1998, method 10.
"""

from dataclasses import dataclass
from math import exp, lgamma, log, sqrt

from tracegrade.compare.shares import Difference, Share
from tracegrade.model.tally import Z95, Weighted

_NEGLIGIBLE = 1e-18


@dataclass(frozen=True, slots=True)
class PairTable:
    """Pairs by outcome on side A, then on side B: ``pass_fail`` passed on A and fails on B.

    ``ratio_a`` and ``ratio_b`` are how often a pass is kept on that side for each fail that is.
    """

    pass_pass: Weighted
    pass_fail: Weighted
    fail_pass: Weighted
    fail_fail: Weighted
    ratio_a: float = 1.0
    ratio_b: float = 1.0

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return sum(cell.stored for cell in (self.pass_pass, self.pass_fail, self.fail_pass, self.fail_fail))

    @property
    def scale(self) -> float:
        """How much a pair counts for one that it stands for."""
        worse, better = self.pass_fail, self.fail_pass
        if worse.stored + better.stored:
            return (worse.total + better.total) / (worse.squares + better.squares)
        rarest = max(cell.squares / cell.total for cell in (self.pass_pass, self.fail_fail) if cell.stored)
        return 1 / rarest


def paired(table: PairTable) -> Difference | None:
    """How the pass rate on B differs from that on A, by pairs; None without pairs.

    Where results were kept with different probabilities, pairs count for as many as they stand for, and together for
    as many as those tell that changed: what did not change has no part in how uncertain a difference is.
    """
    if not table.count:
        return None
    scale = table.scale
    cells = (table.pass_pass, table.pass_fail, table.fail_pass, table.fail_fail)
    both, worse, better, neither = (cell.total * scale for cell in cells)
    value, low, high = newcombe_pairs(both, worse, better, neither)
    # A pair that passes on A alone is kept as often as passes are on A, one that passes on B alone as on B.
    share = table.ratio_a / (table.ratio_a + table.ratio_b)
    return Difference(value, low, high, mcnemar(table.pass_fail.stored, table.fail_pass.stored, share), "mcnemar")


def newcombe_pairs(
    both: float, worse: float, better: float, neither: float, z: float = Z95
) -> tuple[float, float, float]:
    """B less A, and the bounds of it, by Newcombe's method 10.

    Args:
        both: pairs that pass on both sides.
        worse: pairs that pass on A alone.
        better: pairs that pass on B alone.
        neither: pairs that fail on both sides.
        z: the standard normal quantile of the interval.
    """
    pairs = both + worse + better + neither
    a, b = Share(both + worse, better + neither), Share(both + better, worse + neither)
    (low_a, high_a), (low_b, high_b) = a.limits(z), b.limits(z)
    value, phi = (better - worse) / pairs, _correlation(both, worse, better, neither)
    return (
        value,
        value - _apart(b.rate - low_b, high_a - a.rate, phi),
        value + _apart(high_b - b.rate, a.rate - low_a, phi),
    )


def _apart(one: float, other: float, phi: float) -> float:
    """The length of the difference of two distances that go together as `phi` says."""
    return sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def _correlation(both: float, worse: float, better: float, neither: float) -> float:
    """Phi, corrected for continuity where it is positive, as method 10 does; 0 where a side has one outcome alone."""
    product = (both + worse) * (better + neither) * (both + better) * (worse + neither)
    if product <= 0:
        return 0.0
    found = both * neither - worse * better
    if found > 0:
        found = max(0.0, found - (both + worse + better + neither) / 2)
    return found / sqrt(product)


def mcnemar(worse: int, better: int, share: float = 0.5) -> float:
    """The exact p-value of so many pairs that changed for the worse and for the better, two-sided.

    Args:
        worse: pairs that pass on A alone.
        better: pairs that pass on B alone.
        share: of the pairs that changed, the part expected among the kept for the worse while nothing is worse.
    """
    changed = worse + better
    lower = _binomial_at_most(worse, changed, share)
    upper = _binomial_at_most(better, changed, 1 - share)
    return min(1.0, 2 * min(lower, upper))


def _binomial_at_most(found: int, tries: int, share: float) -> float:
    """The probability of `found` or fewer of so many tries."""
    if found >= tries:
        return 1.0
    term = exp(
        lgamma(tries + 1)
        - lgamma(found + 1)
        - lgamma(tries - found + 1)
        + found * log(share)
        + (tries - found) * log(1 - share)
    )
    total, odds = 0.0, (1 - share) / share
    for number in range(found, -1, -1):
        total += term
        term *= number / (tries - number + 1) * odds
        if term < total * _NEGLIGIBLE:
            break
    return min(1.0, total)
