"""Two independent shares of passes: their difference, its interval and its p-value.

Source: R. G. Newcombe, Interval estimation for the difference between independent proportions, 1998, method 10.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, sqrt

from tracegrade.model.tally import Z95, Weighted

_LARGEST_Z = 40.0  # beyond it p is 0 as a float
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Share:
    """A share of passes, of which some were kept: ``passes`` and ``fails`` are the effective numbers of kept results.

    ``ratio`` is how often a pass is kept for each fail that is. With a sample that keeps every fail it is the sample's
    share, else 1. The kept results are a plain sample whose share is known by Wilson's bounds; from it follows the
    share among all results, since one grows with the other.
    """

    passes: float
    fails: float
    ratio: float = 1.0

    @property
    def rate(self) -> float:
        """The share of passes among all results, kept or not, 0..1."""
        return self._among_all(self.passes / (self.passes + self.fails))

    @property
    def slope(self) -> float:
        """How much the share among all results grows with the share of passes among the kept ones."""
        kept = self.passes / (self.passes + self.fails)
        return self.ratio / (kept + self.ratio * (1 - kept)) ** 2

    @property
    def variance(self) -> float:
        """That of the rate; 0 where all pass, or all fail."""
        results = self.passes + self.fails
        return self.slope**2 * self.passes * self.fails / results**3

    def limits(self, z: float) -> tuple[float, float]:
        """Wilson's bounds of the share, without correction for continuity."""
        results = self.passes + self.fails
        kept, spread = self.passes / results, z * z / results
        middle, half = kept + spread / 2, z * sqrt(kept * (1 - kept) / results + spread / (4 * results))
        low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
        # At both ends rounding would leave 1e-17 and the like.
        return (
            0.0 if self.passes == 0 else self._among_all(max(0.0, low)),
            1.0 if self.fails == 0 else self._among_all(min(1.0, high)),
        )

    def _among_all(self, kept: float) -> float:
        return kept / (kept + self.ratio * (1 - kept))


def share_of(passes: Weighted, fails: Weighted, ratio: float) -> Share | None:
    """The share of passes; None without results.

    Args:
        passes: the results that pass.
        fails: the results that fail.
        ratio: how often a pass is kept for each fail that is, where the results cannot say: all pass, or all fail.
    """
    if not passes.stored + fails.stored:
        return None
    if passes.stored and fails.stored:
        ratio = (passes.effective / passes.total) / (fails.effective / fails.total)
    return Share(passes.effective, fails.effective, ratio)


@dataclass(frozen=True, slots=True)
class Difference:
    """The pass rate of side B less that of side A, from -1 to 1.

    ``low`` and ``high`` are its 95 % interval. ``p`` is two-sided: how often chance alone gives a difference like this
    or a larger one. ``method`` says how they were computed.
    """

    value: float
    low: float
    high: float
    p: float
    method: str


def independent(a: Share, b: Share) -> Difference:
    """How the share `b` differs from `a`, of other subjects: Newcombe's interval.

    p is that of the same method: the interval with the confidence 1 - p ends at 0.
    """
    value = b.rate - a.rate
    low, high = interval(a, b, Z95)
    far = (lambda z: interval(a, b, z)[1]) if value < 0 else (lambda z: -interval(a, b, z)[0])
    return Difference(value, low, high, _p(far) if value else 1.0, "newcombe")


def interval(a: Share, b: Share, z: float) -> tuple[float, float]:
    """Newcombe's bounds of `b` less `a`, at the standard normal quantile `z`."""
    value = b.rate - a.rate
    low_a, high_a = a.limits(z)
    low_b, high_b = b.limits(z)
    below = sqrt((b.rate - low_b) ** 2 + (high_a - a.rate) ** 2)
    above = sqrt((high_b - b.rate) ** 2 + (a.rate - low_a) ** 2)
    return value - below, value + above


def _p(bound: Callable[[float], float]) -> float:
    """The two-sided probability at which `bound`, which grows with z from below 0, reaches 0."""
    low, high = 0.0, _LARGEST_Z
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if bound(middle) < 0:
            low = middle
        else:
            high = middle
    return erfc(low / sqrt(2))
