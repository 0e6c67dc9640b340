"""Has a share fallen below its earlier value? A sequential test, which may be evaluated after every result.

It is a Shiryaev-Roberts detector in the form of an e-detector. For each result, and for each size of drop that it looks
for, the likelihood ratio of "after the drop" to "as before" is an e-value: its mean is at most 1 while nothing has
fallen. The sum over all starts of the products of e-values since then grows by at most 1 a result on average; so it
reaches ``c`` within m results with probability m / c at most, and on average not before ``c`` results. That holds for
results in any number at a time, and for scores between 0 and 1 in place of passes and fails, which count as parts of a
pass: the logarithm of a mean is at least the mean of logarithms.

A baseline that was itself measured enters as its lower confidence bound, so that its own error does not become alarms.

A worked example: 90 % passed before, the smallest drop that matters is 0.1. It looks for drops to 0.8, 0.7 and 0.5. A
pass multiplies the evidence for them by 0.8 / 0.9, 0.7 / 0.9 and 0.5 / 0.9, a fail by 0.2 / 0.1, 0.3 / 0.1 and
0.5 / 0.1; before that, each result adds 1. `DropDetector.evidence` is the mean of the three::

    result      0.8      0.7      0.5   evidence   since
    pass       0.889    0.778    0.556      0.74   none
    pass       1.679    1.383    0.864      1.31   none
    pass       2.381    1.853    1.036      1.76   none
    pass       3.006    2.219    1.131      2.12   none
    fail       8.011    9.658   10.655      9.44   the 5th result
    fail      18.0     32.0     58.3       36.1    the 5th result
    fail      38.0     98.9    296        144      the 5th result
    fail      78.1    300     1487        622      the 5th result
    fail     158      902     7439       2833      the 5th result
    fail     318     2710    37201      13410      the 5th result

With ``false_alarm_every: 10000`` the alert fires at the sixth fail. While 90 % pass, the evidence stays small: 8.5
after 200 results of which each tenth fails.

Sources: M. Pollak, Optimal detection of a change in distribution, 1985; J. Shin, A. Ramdas and A. Rinaldo, E-detectors:
a nonparametric framework for sequential change detection, 2023.
"""

from math import exp, log, log1p

# Drops of the smallest size that matters, and larger ones, which are found sooner if the detector looks for them.
_TIMES_THE_DROP = (1.0, 2.0, 4.0)
_LEAST, _MOST = 0.005, 0.995
# More evidence than this changes no decision, and a float can hold it.
_MAX_EVIDENCE = 1e100


class DropDetector:
    """Looks for a fall below `before`; add the results in their order.

    Args:
        before: the share to compare with, between 0 and 1.
        drop: the smallest fall that matters.
        usual: the share that falls, where `before` is only its lower bound; by default, `before`.
        ratio: the chance that a pass is kept, divided by that of a fail, if samples keep every fail; see `as_kept`.
    """

    def __init__(self, before: float, drop: float, *, usual: float | None = None, ratio: float = 1.0) -> None:
        before = min(before, _MOST)
        usual = before if usual is None else min(usual, _MOST)
        falls = [usual - times * drop for times in _TIMES_THE_DROP]
        # A fall to 0, if the share is smaller than the drop looked for, or not yet known to be larger than the
        # baseline's own error.
        falls = [after for after in falls if _LEAST <= after < before] or [min(_LEAST, before / 2)]
        self._weighers = [_Weigher(as_kept(before, ratio), as_kept(after, ratio)) for after in falls]

    @property
    def evidence(self) -> float:
        """How strongly the results suggest a fall; by chance it is above c at most once in c results, on average."""
        return sum(weigher.evidence for weigher in self._weighers) / len(self._weighers)

    @property
    def since(self) -> int | None:
        """The number of the addition, from 0, with which the fall most likely began; None when nothing suggests one."""
        best = max(self._weighers, key=lambda weigher: weigher.height)
        return best.start if best.height > 0 else None

    def add(self, passed: float, failed: float) -> None:
        """Add results; for scores, `passed` is their sum and `failed` their number minus that sum."""
        for weigher in self._weighers:
            weigher.add(passed, failed)


class _Weigher:
    """The evidence for a fall from one share to another."""

    def __init__(self, before: float, after: float) -> None:
        self._of_pass = log(after / before)
        self._of_fail = log1p(-after) - log1p(-before)
        self.evidence = 0.0
        # Page's CUSUM of the same logarithms: the fall most likely began when it was last 0.
        self.height = 0.0
        self.start = 0
        self._additions = 0

    def add(self, passed: float, failed: float) -> None:
        gain = passed * self._of_pass + failed * self._of_fail
        self.evidence = min(_MAX_EVIDENCE, (self.evidence + passed + failed) * exp(min(gain, 200.0)))
        if self.height <= 0:
            self.height, self.start = 0.0, self._additions
        self.height += gain
        self._additions += 1


def as_kept(share: float, ratio: float) -> float:
    """The share of passes among kept results when all fails are kept, and passes with probability `ratio`."""
    return share * ratio / (share * ratio + 1 - share)


def as_happened(share: float, ratio: float) -> float:
    """The share of passes among all results, from that among kept results: the inverse of `as_kept`."""
    return share / (share + ratio * (1 - share))
