"""Which series stand out when many are looked at: the e-Benjamini-Hochberg procedure."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)

# Of the series that alarm together, at most this part on average did not change.
_FALSE_DISCOVERIES = 0.1


def stands_out(evidence: Mapping[_Key, float], mean_evidence: float, needed: int | None = None) -> set[_Key]:
    """The series that alarm: of n that are looked at, the k with the most evidence, for the largest k that may.

    One series alone needs the evidence n, so that all n together raise no more false alarms than one is allowed to. Of
    several that changed together each needs less, since less of them would be false: with a week of evidence and 30
    days between false alarms, 2.3 * n / k for the k-th.

    Args:
        evidence: by series; 1 is an alarm of a series by itself. Series that share one alarm have their share of it.
        mean_evidence: how much of it a series has at most, on average, while nothing changes.
        needed: n, when some of the series share one alarm; without it, how many there are.

    Source: R. Wang and A. Ramdas, False discovery rate control with e-values, 2022; for e-detectors: S. Dandapanthula
    and A. Ramdas, Multiple testing in multi-stream sequential change detection, 2025.
    """
    ranked = sorted(evidence.items(), key=lambda item: -item[1])
    needed = len(ranked) if needed is None else needed
    several = mean_evidence / _FALSE_DISCOVERIES
    last = 0
    for rank, (_, found) in enumerate(ranked, 1):
        if found >= needed * min(1.0, several / rank):
            last = rank
    return {key for key, _ in ranked[:last]}
