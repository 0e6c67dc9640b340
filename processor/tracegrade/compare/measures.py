"""What runs took on both sides: time, calls, failed calls, tokens and cost of each trace."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, NamedTuple, TypeAlias

from tracegrade.compare.shares import Z95
from tracegrade.model.json_value import JsonValue
from tracegrade.model.usage import CostOf, Tokens, Usage, no_prices

MEASURES = ("duration_s", "calls", "errors", "tokens", "cost")
"""Of each trace: seconds from its first start to its last end, tool calls, failed ones, tokens, and their cost."""

_NS = 1_000_000_000
_ERROR_TYPE = 7  # in a row of the view ``tool_calls``
_MODEL, _INPUT, _OUTPUT = 4, 6, 7  # in a row of the view ``agent_runs``
_CACHE = 9  # from here on, where a cache was used: tokens read from it, and written to it


class Taken(NamedTuple):
    """One trace's value; it stands for ``weight`` traces, and goes together with others of its ``cluster``."""

    value: float
    weight: float
    cluster: Hashable


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
    taken: defaultdict[str, list[Taken]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: Any, calls: Sequence[Any], runs: Sequence[Any], weight: float, cluster: Hashable) -> None:
        """Add one trace: its row of ``traces``, with the rows of its calls and runs."""
        if row.start_ns:
            self._put("duration_s", (row.end_ns - row.start_ns) / _NS, weight, cluster)
        self._put("calls", len(calls), weight, cluster)
        self._put("errors", sum(call[_ERROR_TYPE] is not None for call in calls), weight, cluster)
        spent = [run for run in runs if run[_INPUT] is not None or run[_OUTPUT] is not None]
        if spent:
            self._put("tokens", sum((run[_INPUT] or 0) + (run[_OUTPUT] or 0) for run in spent), weight, cluster)
            if self.cost_of is not no_prices:
                cost = self.cost_of([_usage(run) for run in spent]).amount
                if cost is not None:
                    self._put("cost", cost, weight, cluster)

    def _put(self, name: str, value: float, weight: float, cluster: Hashable) -> None:
        self.taken[name].append(Taken(value, weight, cluster))


def measured(a: SideMeasures, b: SideMeasures) -> dict[str, Measured]:
    """Each measure that a trace of either side says."""
    found = {name: Measured(summary_of(a.taken[name]), summary_of(b.taken[name])) for name in MEASURES}
    return {name: both for name, both in found.items() if both.a is not None or both.b is not None}


def summary_of(taken: Sequence[Taken]) -> Summary | None:
    """The mean and what else is said of it; None without values.

    The standard error is that of a mean of clusters, by linearisation.
    """
    if not taken:
        return None
    total = sum(one.weight for one in taken)
    mean = sum(one.value * one.weight for one in taken) / total
    apart: defaultdict[Hashable, float] = defaultdict(float)
    for one in taken:
        apart[one.cluster] += one.weight * (one.value - mean)
    clusters, error = len(apart), None
    if clusters > 1:
        error = sqrt(sum(value * value for value in apart.values()) * clusters / (clusters - 1)) / total
    ordered = sorted(taken, key=lambda one: one.value)
    quantile = _quantiles(ordered, total)
    return Summary(len(taken), mean, quantile(0.5), quantile(0.95), error)


def _quantiles(ordered: Sequence[Taken], total: float) -> Callable[[float], float]:
    """The least value that at least a share of all weights do not exceed."""

    def of(share: float) -> float:
        reached = 0.0
        for one in ordered:
            reached += one.weight
            if reached >= share * total * (1 - 1e-12):
                return one.value
        return ordered[-1].value

    return of


def _usage(run: Sequence[Any]) -> Usage:
    taken_in, given_out = run[_INPUT], run[_OUTPUT]
    return Usage(run[_MODEL] or "", Tokens(taken_in, given_out, (taken_in or 0) + (given_out or 0), *run[_CACHE:]))
