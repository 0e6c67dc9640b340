"""The Benjamini-Hochberg procedure: bounds the share of false alarms among series that alarm together."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)


def benjamini_hochberg(p_values: Mapping[_Key, float], error: float) -> set[_Key]:
    """The series that stand out at `error`, given the number of series checked.

    The k-th smallest of n p-values must be at most ``error * k / n``. With one series, this is the plain test.
    1 / evidence of a `DropDetector` may be used as a p-value: then errors are counted by result, as in the detector.

    Source: Y. Benjamini and Y. Hochberg, Controlling the false discovery rate, 1995; for e-detectors: S. Dandapanthula
    and A. Ramdas, Multiple testing in multi-stream sequential change detection, 2025 (the procedure e-d-BH).
    """
    ranked = sorted(p_values.items(), key=lambda item: item[1])
    last = 0
    for rank, (_, p_value) in enumerate(ranked, 1):
        if p_value <= error * rank / len(ranked):
            last = rank
    return {key for key, _ in ranked[:last]}
