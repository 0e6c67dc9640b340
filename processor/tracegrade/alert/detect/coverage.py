"""``alert: {coverage}``: do results still come, and do they have the tool content that they need?

Two shares, compared with their earlier values: results for each trace of the service, and judged results among all
results. When the service sends no traces, nothing is known: that is not lost coverage.
"""

from tracegrade.alert.detect.finding import Finding, Share, share_of
from tracegrade.rule.alert import Alert, Coverage
from tracegrade.store.history import Outcomes


def look_coverage(
    alert: Alert, coverage: Coverage, now: Outcomes, before: Outcomes, traces_now: int, traces_before: int
) -> Finding | None:
    """Whether the share of results, or of judged results, has fallen to less than ``falls_to`` of the usual share.

    Args:
        alert: its window, minimum and confidence.
        coverage: what to compare with.
        now: of one series, within the window.
        before: of the same, in the history before it.
        traces_now: traces of the service within the window, judged or not.
        traces_before: traces of the service in the history.

    Returns:
        The worse of the two; None when the history or the window holds too few of either.
    """
    if before.results < alert.min_samples or traces_before < alert.min_samples or traces_now == 0:
        return None
    # Several results of a trace say no more about coverage than one.
    seen = (min(_all(now), traces_now), traces_now, min(_all(before), traces_before), traces_before)
    found = [_fallen(alert, coverage, Share(*seen[:2]), Share(*seen[2:]), traces_now)]
    if now.results >= alert.min_samples:
        judged_now = share_of(now.all_passed + now.all_failed, now)
        judged_before = share_of(before.all_passed + before.all_failed, before)
        found.append(_fallen(alert, coverage, judged_now, judged_before, now.results))
    worst = min(found, key=lambda finding: 1.0 if finding.p_value is None else finding.p_value)
    recovered = all(finding.recovered for finding in found)
    return worst if worst.recovered == recovered else max(found, key=lambda finding: not finding.recovered)


def _fallen(alert: Alert, coverage: Coverage, now: Share, before: Share, samples: int) -> Finding:
    error = 1 - alert.confidence
    # The history's own error is in its lower bound.
    bound = coverage.falls_to * before.bounds(error)[0]
    low, high = now.bounds(error)
    known = samples >= alert.min_samples and bound > 0
    return Finding(
        value=now.value,
        low=low,
        high=high,
        samples=samples,
        bound=bound,
        p_value=now.p_value(bound) if known else None,
        recovered=now.value >= bound,
        was=before.value,
        was_samples=round(before.samples),
    )


def _all(outcomes: Outcomes) -> float:
    return outcomes.all_passed + outcomes.all_failed + outcomes.all_not_evaluable + outcomes.all_errors
