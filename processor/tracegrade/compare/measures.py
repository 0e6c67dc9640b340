"""What runs took on both sides: time, calls, failed calls, tokens and cost of each trace."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import sqrt
from operator import mul
from typing import Any, TypeAlias

from tracegrade.model.json_value import JsonValue
from tracegrade.model.tally import Z95
from tracegrade.model.usage import CostOf, no_prices
from tracegrade.store.heads import usages_in

MEASURES = ("duration_s", "calls", "errors", "tokens", "cost")
"""Of each trace: seconds from its first start to its last end, tool calls, failed ones, tokens, and their cost."""

_NS = 1_000_000_000
_ROUNDING = 1e-12  # of a mean: sums of equal values differ by less
_ERROR_TYPE = 7  # in a row of the view ``tool_calls``


@dataclass(slots=True)
class Taken:
    """The values of one measure, trace by trace, as columns: a million traces are then three lists.

    A trace stands for as many traces as its weight says, and goes together with others of its cluster.
    """

    values: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    clusters: list[Hashable] = field(default_factory=list)

    def add(self, value: float, weight: float, cluster: Hashable) -> None:
        """Add one trace."""
        self.values.append(value)
        self.weights.append(weight)
        self.clusters.append(cluster)


@dataclass(frozen=True, slots=True)
class Summary:
    """Over the traces of one side of which it is known; ``error`` is the standard error of the mean."""

    traces: int
    mean: float
    median: float
    p95: float
    error: float | None

    def to_json(self) -> dict[str, JsonValue]:
        """All but the standard error, which the interval of the difference has."""
        return {"traces": self.traces, "mean": self.mean, "median": self.median, "p95": self.p95}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure on both sides; None where no trace says it."""

    a: Summary | None
    b: Summary | None

    @property
    def difference(self) -> tuple[float, float, float] | None:
        """The mean of B less that of A, and its 95 % interval; None where a side has too few traces for one."""
        a, b = self.a, self.b
        if a is None or b is None or a.error is None or b.error is None:
            return None
        value, half = b.mean - a.mean, Z95 * sqrt(a.error**2 + b.error**2)
        value = 0.0 if abs(value) <= _ROUNDING * max(abs(a.mean), abs(b.mean)) else value
        return value, value - half, value + half

    def to_json(self) -> dict[str, JsonValue]:
        """Both sides and the difference of the means."""
        value, low, high = self.difference or (None, None, None)
        return {
            "a": None if self.a is None else self.a.to_json(),
            "b": None if self.b is None else self.b.to_json(),
            "difference": value,
            "low": low,
            "high": high,
        }


Measures: TypeAlias = Mapping[str, Measured]


@dataclass(slots=True)
class SideMeasures:
    """The values of one side, gathered trace by trace; `cost_of` says what tokens cost."""

    cost_of: CostOf
    taken: defaultdict[str, Taken] = field(default_factory=lambda: defaultdict(Taken))

    def add(
        self,
        start_ns: int,
        end_ns: int,
        calls: Sequence[Any],
        runs: Sequence[Any],
        weight: float,
        cluster: Hashable,
    ) -> None:
        """Add one trace: its first start and last end, with the rows of its calls and runs."""
        taken = self.taken
        if start_ns:
            taken["duration_s"].add((end_ns - start_ns) / _NS, weight, cluster)
        taken["calls"].add(len(calls), weight, cluster)
        taken["errors"].add(len([call for call in calls if call[_ERROR_TYPE] is not None]), weight, cluster)
        if spent := usages_in(runs):
            taken["tokens"].add(sum([usage.tokens.total for usage in spent]), weight, cluster)
            if self.cost_of is not no_prices:
                cost = self.cost_of(spent).amount
                if cost is not None:
                    taken["cost"].add(cost, weight, cluster)


def measured(a: SideMeasures, b: SideMeasures) -> dict[str, Measured]:
    """Each measure that a trace of either side says."""
    found = {name: Measured(summary_of(a.taken[name]), summary_of(b.taken[name])) for name in MEASURES}
    return {name: both for name, both in found.items() if both.a is not None or both.b is not None}


def summary_of(taken: Taken) -> Summary | None:
    """The mean and what else is said of it; None without values.

    The standard error is that of a mean of clusters, by linearisation.
    """
    values, weights = taken.values, taken.weights
    if not values:
        return None
    total = sum(weights)
    mean = sum(map(mul, values, weights)) / total
    apart: defaultdict[Hashable, float] = defaultdict(float)
    for value, weight, cluster in zip(values, weights, taken.clusters, strict=True):
        apart[cluster] += weight * (value - mean)
    clusters, error = len(apart), None
    if clusters > 1:
        error = sqrt(sum(value * value for value in apart.values()) * clusters / (clusters - 1)) / total
        error = 0.0 if error <= _ROUNDING * abs(mean) else error
    quantile = _quantiles(taken, total)
    return Summary(len(values), mean, quantile(0.5), quantile(0.95), error)


def _quantiles(taken: Taken, total: float) -> Callable[[float], float]:
    """The least value that at least a share of all weights do not exceed."""
    order = sorted(range(len(taken.values)), key=taken.values.__getitem__)
    reached = list(accumulate(map(taken.weights.__getitem__, order)))

    def of(share: float) -> float:
        place = bisect_left(reached, share * total * (1 - 1e-12))
        return taken.values[order[min(place, len(order) - 1)]]

    return of
