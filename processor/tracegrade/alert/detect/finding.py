"""A finding: what a check of one series found, and how strong the evidence is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal, TypeAlias

from tracegrade.alert.detect.bounds import bernstein
from tracegrade.alert.detect.steps import as_happened, kept_ratio
from tracegrade.model.tally import Tally, total, wilson
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.watched import UNJUDGED
from tracegrade.store.alerts import ErrorBudget
from tracegrade.store.history import Bin

Verdict: TypeAlias = Literal["holds", "recovered", "between", "unknown"]

# Of the interval that is shown beside a value: how often each of its ends may be wrong.
_SHOWN_ERROR = 0.01
_FAR = NormalDist().inv_cdf(1 - _SHOWN_ERROR)


@dataclass(frozen=True, slots=True)
class Firing:
    """What fires, from which minute on; of a fall, the share before it, of how many results, and since when it fell."""

    minute: int
    was: float | None = None
    was_samples: int = 0
    since: int = 0


@dataclass(frozen=True, slots=True)
class Observations:
    """What a check sees of one series.

    ``bins``: within the time in which results are evidence, in order. ``before``: in the history before it, of any
    release or, of one that has enough, its own, without earlier incidents. ``shown``: within the window that the alert
    names. From the minute ``fine_from`` on, bins are minutes; hours that ended by the minute ``until`` are over.
    ``firing``: what fires at present. ``beside``: of one release, the results of the others from its first one on; None
    for all releases together.
    """

    bins: Sequence[Bin]
    before: Sequence[Bin]
    shown: Sequence[Bin]
    fine_from: int
    until: int
    firing: Firing | None = None
    beside: Sequence[Bin] | None = None

    def since(self, minute: int | None) -> list[Bin]:
        """The evidence from this minute on; none for None."""
        return [item for item in self.bins if minute is not None and item.minute >= minute]


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check at one series.

    ``value`` lies between ``low`` and ``high``; it is compared with ``bound``, which for a drop or coverage comes from
    the baseline: ``was``, of ``was_samples`` results (0: stated). ``evidence`` is that of a change for the worse, or,
    while it fires, of recovery: enough at 1. None when nobody can tell: too few results, or none. Unknown is not zero.
    ``since``: the minute in which it most likely began. ``is_counted``: it was decided by counting, so that neither
    chance nor other series matter. ``budget``: of an objective, what is left of its error budget.
    """

    value: float
    low: float
    high: float
    samples: int
    bound: float
    evidence: float | None
    was: float | None = None
    was_samples: int = 0
    since: int | None = None
    is_counted: bool = False
    budget: ErrorBudget | None = None

    def verdict(self, is_firing: bool, stands_out: bool) -> Verdict:
        """Whether the condition holds; `stands_out`: whether the series stands out among all that were checked."""
        if self.evidence is None:
            return "unknown"
        if is_firing:
            return "recovered" if self.evidence >= 1 else "between"
        return "holds" if stands_out or (self.is_counted and self.evidence >= 1) else "between"


@dataclass(frozen=True, slots=True)
class Measured:
    """A value between ``low`` and ``high``, of as many results as ``samples`` are worth."""

    value: float
    low: float
    high: float
    samples: float

    def finding(
        self, bound: float, evidence: float | None, since: int | None, was: float | None = None, was_samples: float = 0
    ) -> Finding:
        """The finding that has this value."""
        facts = was, round(was_samples), since
        return Finding(self.value, self.low, self.high, round(self.samples), bound, evidence, *facts)


def measure_all(rule: Rule, alert: Alert, bins: Iterable[Bin]) -> Measured | None:
    """See `measure`."""
    return measure(rule, alert, total(item.tally for item in bins))


def measure(rule: Rule, alert: Alert, tally: Tally) -> Measured | None:
    """What `alert` watches, as `tally` shows it; None when there is nothing to measure it by."""
    if alert.of in UNJUDGED:
        bad = tally.all_not_evaluable if alert.of == "not_evaluable" else tally.all_errors
        return share_of(bad, tally) if tally.results else None
    if tally.judged == 0:
        return None
    if alert.is_of_values:
        return _mean_value(tally)
    if alert.is_of_score:
        return _mean(tally)
    ratio = kept_ratio(rule, tally)
    low, high = wilson(tally.passed, tally.judged, _FAR)
    bounds = as_happened(low, ratio), as_happened(high, ratio)
    return Measured(as_happened(tally.passed / tally.judged, ratio), *bounds, tally.judged)


def share_of(count: float, tally: Tally) -> Measured:
    """A share among all results, by their weights; `count` of them, weighted. There must be results."""
    weight = tally.all_results
    return share(min(1.0, count / weight), weight * weight / tally.squares)


def share(value: float, samples: float) -> Measured:
    """A share, seen on so many results."""
    return Measured(value, *wilson(value * samples, samples, _FAR), samples)


def _mean(tally: Tally) -> Measured:
    weight = tally.all_judged
    mean = tally.all_scores / weight
    samples = weight * weight / tally.judged_squares
    spread = max(0.0, tally.all_score_squares / weight - mean * mean)
    variance = spread * samples / (samples - 1) if samples > 1 else 0.25
    return Measured(mean, *bernstein(mean, variance, samples, _SHOWN_ERROR), samples)


def _mean_value(tally: Tally) -> Measured:
    mean = tally.all_scores / tally.all_passed
    variance = max(0.0, tally.all_score_squares / tally.all_passed - mean * mean)
    half = _FAR * sqrt(variance * tally.judged_squares) / tally.all_passed
    return Measured(mean, max(0.0, mean - half), mean + half, tally.passed)
