"""``alert: {below}`` and ``{above}``: do the results show that the watched number is beyond its bound?"""

from tracegrade.alert.detect.finding import Finding, Share, measure, share_of
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Outcomes


def look_below(rule: Rule, alert: Alert, bound: float, outcomes: Outcomes) -> Finding | None:
    """Whether a pass rate or a mean score lies below `bound`: by Wilson's bound, or by the empirical Bernstein bound.

    It fires when even the upper confidence bound is below `bound`; it is resolved when the value itself is back at
    ``resolve_at``. In between it keeps its state (hysteresis). None when nothing was judged.
    """
    measured = measure(rule, alert, outcomes)
    if measured is None:
        return None
    low, high = measured.bounds(1 - alert.confidence)
    enough = outcomes.judged >= alert.min_samples
    return Finding(
        value=measured.value,
        low=low,
        high=high,
        samples=outcomes.judged,
        bound=bound,
        p_value=measured.p_value(bound) if enough else None,
        recovered=measured.value >= (bound if alert.resolve_at is None else alert.resolve_at),
    )


def look_above(alert: Alert, bound: float, outcomes: Outcomes) -> Finding | None:
    """Whether the share of results that were not evaluable, or an error, lies above `bound`; as `look_below` does."""
    if outcomes.results == 0:
        return None
    count = outcomes.all_not_evaluable if alert.of == "not_evaluable" else outcomes.all_errors
    share = share_of(count, outcomes)
    rest = Share(share.samples - share.passed, share.samples)
    low, high = share.bounds(1 - alert.confidence)
    enough = outcomes.results >= alert.min_samples
    return Finding(
        value=share.value,
        low=low,
        high=high,
        samples=outcomes.results,
        bound=bound,
        p_value=rest.p_value(1 - bound) if enough else None,
        recovered=share.value <= (bound if alert.resolve_at is None else alert.resolve_at),
    )
