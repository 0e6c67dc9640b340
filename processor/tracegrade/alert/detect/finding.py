"""A finding: what a check of one series found, and how certain it is."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tracegrade.alert.detect.bounds import bernstein, chernoff_lower, mean_p_value, share_p_value, wilson
from tracegrade.alert.detect.sequential import as_happened, as_kept
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Outcomes

Verdict: TypeAlias = Literal["holds", "recovered", "between", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check at one series.

    ``value`` is between ``low`` and ``high``, each wrong with the alert's error. It is compared with ``bound``, which
    for a drop or coverage comes from the baseline: ``was``, of ``was_samples`` results (0: stated). ``p_value`` is the
    probability of this by chance; None when it is unknown: too few results, or none. Unknown is not zero.
    ``since_minute``: where a fall most likely began.
    """

    value: float
    low: float
    high: float
    samples: int
    bound: float
    p_value: float | None
    recovered: bool = False
    was: float | None = None
    was_samples: int = 0
    since_minute: int | None = None

    def verdict(self, stands_out: bool) -> Verdict:
        """Whether the condition holds; `stands_out`: whether the series stands out among all checked series."""
        if self.p_value is None:
            return "unknown"
        if self.recovered:
            return "recovered"
        return "holds" if stands_out else "between"


@dataclass(frozen=True, slots=True)
class Share:
    """A share, estimated from a sample: ``passed`` of ``samples`` kept results.

    ``ratio``: the chance that a pass is kept, divided by that of a fail; 1 except for rules that keep every fail. Among
    kept results, the share of passes is the one in `as_kept`: bounds are computed there and converted back.
    """

    passed: float
    samples: float
    ratio: float = 1.0

    @property
    def value(self) -> float:
        """The estimated share among all results."""
        return as_happened(self.passed / self.samples, self.ratio)

    def bounds(self, error: float) -> tuple[float, float]:
        """Bounds on the share among all results."""
        low, high = wilson(self.passed, self.samples, error)
        return as_happened(low, self.ratio), as_happened(high, self.ratio)

    def p_value(self, bound: float) -> float:
        """The probability of a share this small if the true share is `bound`."""
        return share_p_value(self.passed, self.samples, as_kept(bound, self.ratio))

    def lower_confidence_bound(self, error: float) -> float:
        """A lower bound on the share among all results; it is wrong with a probability of at most `error`."""
        return as_happened(chernoff_lower(self.passed / self.samples, self.samples, error), self.ratio)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of scores between 0 and 1; ``samples`` is the effective sample size."""

    value: float
    variance: float
    samples: float

    def bounds(self, error: float) -> tuple[float, float]:
        """Bounds on the mean."""
        return bernstein(self.value, self.variance, self.samples, error)

    def p_value(self, bound: float) -> float:
        """The probability of a mean this small if the true mean is `bound`."""
        return mean_p_value(self.value, self.variance, self.samples, bound)

    def lower_confidence_bound(self, error: float) -> float:
        """A lower bound on the mean; it is wrong with a probability of at most `error`."""
        return chernoff_lower(self.value, self.samples, error)


def measure(rule: Rule, alert: Alert, outcomes: Outcomes) -> Share | Mean | None:
    """The number that `alert` watches, measured in `outcomes`; None when they hold nothing to measure."""
    if outcomes.judged == 0:
        return None
    if not alert.is_of_score:
        return Share(outcomes.passed, outcomes.judged, kept_ratio(rule, outcomes))
    weight = outcomes.all_passed + outcomes.all_failed
    mean = outcomes.all_scores / weight
    samples = weight * weight / outcomes.judged_squares
    spread = max(0.0, outcomes.all_score_squares / weight - mean * mean)
    return Mean(mean, spread * samples / (samples - 1) if samples > 1 else 0.25, samples)


def share_of(count: float, outcomes: Outcomes) -> Share:
    """A weighted share among all results; `count` is the weighted number of those in it. There must be results."""
    weight = outcomes.all_passed + outcomes.all_failed + outcomes.all_not_evaluable + outcomes.all_errors
    samples = weight * weight / (outcomes.judged_squares + outcomes.other_squares)
    return Share(min(1.0, count / weight) * samples, samples)


def kept_ratio(rule: Rule, outcomes: Outcomes) -> float:
    """The chance that a pass is kept, divided by that of a fail; from results, since a rule's sample may be edited."""
    share, keeps_fails = rule.sample.share, rule.sample.keep_failures
    passes = outcomes.passed / outcomes.all_passed if outcomes.passed else share
    fails = outcomes.failed / outcomes.all_failed if outcomes.failed else 1.0 if keeps_fails else share
    return passes / fails
