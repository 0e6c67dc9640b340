"""Confidence bounds of a share or a mean."""

from math import log, log1p, sqrt

_STEPS = 60  # halvings: as precise as a float between 0 and 1


def bernstein(mean: float, variance: float, samples: float, error: float) -> tuple[float, float]:
    """Bounds on the mean of scores between 0 and 1 of any distribution; each is wrong with at most `error`.

    Source: A. Maurer and M. Pontil, Empirical Bernstein bounds and sample variance penalization, 2009, theorem 4.
    """
    if samples <= 1:
        return 0.0, 1.0
    far = log(2 / error)
    half = sqrt(2 * variance * far / samples) + 7 * far / (3 * (samples - 1))
    return max(0.0, mean - half), min(1.0, mean + half)


def chernoff_lower(mean: float, samples: float, error: float) -> float:
    """A lower bound on the mean of scores between 0 and 1, also of passes; wrong with at most `error`.

    Source: W. Hoeffding, Probability inequalities for sums of bounded random variables, 1963, theorem 1.
    """
    low, high = 0.0, mean
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if samples * divergence(mean, middle) > -log(error):
            low = middle
        else:
            high = middle
    return low


def divergence(p: float, q: float) -> float:
    """Kullback-Leibler's, from a share `q` to a share `p`, in nats."""
    if (p > 0 and q <= 0) or (p < 1 and q >= 1):
        return float("inf")
    found = p * log(p / q) if p > 0 else 0.0
    return found + (1 - p) * (log1p(-p) - log1p(-q)) if p < 1 else found
