"""Has a share fallen below what it was? A test that may be looked at after every result.

A Shiryaev-Roberts detector in the form of an e-detector. For each result, and for each size of drop that it looks for,
the likelihood ratio of "after the drop" to "as before" is an e-value: its mean is at most 1 while nothing has fallen.
The sum over all starts of the products of e-values since then grows by at most 1 a result on average; so it reaches
``c`` within m results with probability m / c at most, and on average not before ``c`` results. That holds for results
in any number at a time, and for scores between 0 and 1 in place of passes and fails, which count as parts of a pass:
the logarithm of a mean is at least the mean of logarithms.

A baseline that was itself measured enters as its lower confidence bound, so that its own error does not become alarms.

Sources: M. Pollak, Optimal detection of a change in distribution, 1985; J. Shin, A. Ramdas and A. Rinaldo, E-detectors:
a nonparametric framework for sequential change detection, 2023.
"""

from math import exp, log, log1p

# Drops of the smallest size that matters, and of larger ones, which are found sooner when they are looked for.
_TIMES_THE_DROP = (1.0, 2.0, 4.0)
_LEAST, _MOST = 0.005, 0.995
# More than this changes no decision, and a float holds it.
_MAX_EVIDENCE = 1e100


class DropDetector:
    """Watches for a fall below `before`; feed it the results in their order.

    Args:
        before: the share to compare with, between 0 and 1.
        drop: the smallest fall that matters.
        usual: what falls, where `before` is only its lower bound; `before` itself unless given.
        ratio: how often a pass is kept for each fail that is, where samples keep every fail; see `as_kept`.
    """

    def __init__(self, before: float, drop: float, *, usual: float | None = None, ratio: float = 1.0) -> None:
        before = min(before, _MOST)
        usual = before if usual is None else min(usual, _MOST)
        falls = [usual - times * drop for times in _TIMES_THE_DROP]
        # A fall by all that there is, where what is left is smaller than the drop looked for, or not yet known to be
        # larger than the baseline's own error.
        falls = [after for after in falls if _LEAST <= after < before] or [min(_LEAST, before / 2)]
        self._weighers = [_Weigher(as_kept(before, ratio), as_kept(after, ratio)) for after in falls]

    @property
    def evidence(self) -> float:
        """How much speaks for a fall; above c by chance at most once in c results, on average."""
        return sum(weigher.evidence for weigher in self._weighers) / len(self._weighers)

    @property
    def since(self) -> int | None:
        """Which addition, counted from 0, the fall most likely began with; None when nothing speaks for any."""
        best = max(self._weighers, key=lambda weigher: weigher.height)
        return best.start if best.height > 0 else None

    def gains(self, share: float) -> list[float]:
        """What a result adds on average to the logarithm of each drop's evidence, when `share` of them pass."""
        return [weigher.gain(share, 1 - share) for weigher in self._weighers]

    def add(self, passed: float, failed: float) -> None:
        """Take in results; of scores, their sum is `passed` and what is missing to their number `failed`."""
        for weigher in self._weighers:
            weigher.add(passed, failed)


class _Weigher:
    """The evidence for a fall from one share to one other."""

    def __init__(self, before: float, after: float) -> None:
        self._of_pass = log(after / before)
        self._of_fail = log1p(-after) - log1p(-before)
        self.evidence = 0.0
        # Page's CUSUM of the same logarithms: where it last left 0, the fall most likely began.
        self.height = 0.0
        self.start = 0
        self._additions = 0

    def gain(self, passed: float, failed: float) -> float:
        return passed * self._of_pass + failed * self._of_fail

    def add(self, passed: float, failed: float) -> None:
        gain = self.gain(passed, failed)
        self.evidence = min(_MAX_EVIDENCE, (self.evidence + passed + failed) * exp(min(gain, 200.0)))
        if self.height <= 0:
            self.height, self.start = 0.0, self._additions
        self.height += gain
        self._additions += 1


def as_kept(share: float, ratio: float) -> float:
    """The share of passes among kept results when all fails are kept, and passes with probability `ratio`."""
    return share * ratio / (share * ratio + 1 - share)


def as_happened(share: float, ratio: float) -> float:
    """The share of passes among all results, from that among kept ones: the inverse of `as_kept`."""
    return share / (share + ratio * (1 - share))


def designed_delay(share: float, before: float, drop: float, evidence: float, usual: float | None = None) -> float:
    """In how many results, about, a share that has fallen to `share` is found: at most on average, without luck.

    Args:
        share: the share after the fall.
        before: what the detector compares with.
        drop: the smallest fall that it looks for.
        evidence: how much it takes to alarm.
        usual: the share before the fall, where `before` is only its lower bound.

    Returns:
        Infinity when so small a fall cannot be told from the baseline's own error.
    """
    gains = DropDetector(before, drop, usual=usual).gains(share)
    best = max(gains)
    return log(evidence * len(gains)) / best if best > 0 else float("inf")
