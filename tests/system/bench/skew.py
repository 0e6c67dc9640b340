"""How unevenly traces, services and tenants fall on partitions, workers and stores: the simulation behind scale.py.

Sizes of traces, services and tenants follow Zipf's law. Everything is drawn from one fixed seed, so that the same
tables come out each time.
"""

import math
import random
from collections.abc import Sequence
from itertools import pairwise

from tracegrade.assemble.share import share_of
from tracegrade.journal.kafka.partition_hash import partition_of

TRACE_SIZE_EXPONENT = 1.8  # a mean of some 20 spans, and no bound on the spread but the largest trace
LARGEST_TRACE = 50_000  # traces.max_spans_per_trace
_MANY = 40  # from so many on, the normal distribution stands for Poisson's


def zipf(count: int, exponent: float = 1.0) -> list[float]:
    """Shares of `count` things, largest first; they add up to 1."""
    weights = [rank**-exponent for rank in range(1, count + 1)]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def trace_classes() -> list[tuple[float, float]]:
    """(spans, share of traces) of classes of traces, by a power law up to the largest."""
    edges = sorted({*range(1, 9), *(round(8 * 1.25**step) for step in range(40)), LARGEST_TRACE + 1})
    edges = [edge for edge in edges if edge <= LARGEST_TRACE + 1]
    classes = []
    for begin, end in pairwise(edges):
        weights = [size**-TRACE_SIZE_EXPONENT for size in range(begin, end)]
        share = sum(weights)
        classes.append(
            (sum(size * weight for size, weight in zip(range(begin, end), weights, strict=True)) / share, share)
        )
    whole = sum(share for _, share in classes)
    return [(spans, share / whole) for spans, share in classes]


def mean_trace() -> float:
    """Spans of a trace, on average."""
    return sum(spans * share for spans, share in trace_classes())


def hottest_partition(partitions: int, spans_s: float, window_s: float, seed: int = 1) -> tuple[float, float]:
    """What the partition with the most spans gets in one window, when traces are spread by their id.

    Args:
        partitions: how many there are.
        spans_s: spans a second that each gets, on average.
        window_s: how long a window is.
        seed: of the draw.

    Returns:
        Its spans as a multiple of the mean; spans of the largest trace of all, at least.
    """
    chance = random.Random(seed)
    traces = spans_s * window_s / mean_trace()
    classes = trace_classes()
    hottest, largest = 0.0, 0.0
    for _ in range(partitions):
        spans = 0.0
        for size, share in classes:
            drawn = _poisson(chance, traces * share)
            if drawn:
                spans += drawn * size
                largest = max(largest, size)
        hottest = max(hottest, spans)
    return hottest / (spans_s * window_s), largest


def hottest_by_key(name: str, shares: Sequence[float], partitions: int) -> float:
    """What the hottest partition gets, as a multiple of the mean, when all of one thing has the same key."""
    load = [0.0] * partitions
    for number, share in enumerate(shares):
        load[partition_of(f"{name}-{number}".encode(), partitions)] += share
    return max(load) * partitions


def hottest_packed(shares: Sequence[float], places: int) -> float:
    """The same, when the largest is put first, each to the place that has the least."""
    load = [0.0] * places
    for share in sorted(shares, reverse=True):
        load[load.index(min(load))] += share
    return max(load) * places


def hottest_worker(workers: int, traces: int = 20_000, seed: int = 1) -> float:
    """Traces of the busiest of `workers`, as a multiple of the mean, by the hash that workers of one machine use."""
    chance = random.Random(seed)
    load = [0] * workers
    for _ in range(traces):
        load[share_of(chance.getrandbits(128).to_bytes(16, "big"), workers)] += 1
    return max(load) * workers / traces


def _poisson(chance: random.Random, mean: float) -> int:
    if mean > _MANY:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    below, product, count = math.exp(-mean), chance.random(), 0
    while product > below:
        product *= chance.random()
        count += 1
    return count
