"""p-values of several rules together.

Source: S. Holm, A simple sequentially rejective multiple test procedure, 1979.
"""

from collections.abc import Sequence


def holm(values: Sequence[float]) -> list[float]:
    """The adjusted p-value of each of `values`, in their order.

    Of the rules whose adjusted value is at most 0.05, any is there by chance alone in at most 5 % of comparisons.
    """
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted
