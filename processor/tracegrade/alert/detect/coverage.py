"""``alert: {coverage}``: do results still come, and with the tool content that they need?

Two shares, compared with what they were: traces of the service that have a result, and results that could be judged.
Where the service sends no traces, nothing is known: that is silence, not lost coverage.
"""

from collections.abc import Sequence
from dataclasses import replace

from tracegrade.alert.detect.evidence import HOURS, Change, Evidence, Step, look_for
from tracegrade.alert.detect.finding import Finding, Measured, Observations, share
from tracegrade.alert.detect.steps import by_step, good_and_bad, remembered
from tracegrade.alert.detect.usual import Usual, usual_of
from tracegrade.rule.alert import Alert
from tracegrade.rule.alert_forms import Coverage
from tracegrade.store.history import Bin

# What is left of the bound when coverage is lost: some of it, or nearly nothing.
_LEFT = (0.6, 0.2, 0.02)


def look_coverage(alert: Alert, coverage: Coverage, seen: Observations, traces: Observations) -> Finding | None:
    """Whether results, or those that can be judged, are fewer than ``falls_to`` of what was usual.

    Args:
        alert: its minimum of results, and how often it may be wrong.
        coverage: what to compare with.
        seen: results of one series.
        traces: traces of its service, whatever judges them, as passes.

    Returns:
        The worse of the two; None when the history holds too little, or no trace came.
    """
    fine = seen.fine_from
    lacking = [
        (_with_result(seen.shown, traces.shown, fine), _with_result(seen.bins, traces.bins, fine)),
        (_that_were_judged(seen.shown, fine), _that_were_judged(seen.bins, fine)),
    ]
    usuals = remembered(
        "coverage",
        [*seen.before, *traces.before],
        lambda: (
            usual_of(_with_result(seen.before, traces.before, fine)),
            usual_of(_that_were_judged(seen.before, fine)),
        ),
    )
    looks = [
        _weigh_share(alert, coverage, usual, now, shown, seen.until, is_firing=seen.firing is not None)
        for usual, (shown, now) in zip(usuals, lacking, strict=True)
    ]
    found = [finding for finding in looks if finding is not None]
    if not found or not any(item.tally.passed for item in traces.bins):
        return None
    known = [finding for finding in found if finding.evidence is not None] or found
    if seen.firing is None:
        # Two chances to be wrong in place of one.
        worst = max(known, key=lambda finding: finding.evidence or 0.0)
        return replace(worst, evidence=worst.evidence and worst.evidence / len(known))
    return min(known, key=lambda finding: finding.evidence or 0.0)


def _weigh_share(
    alert: Alert,
    coverage: Coverage,
    usual: Usual | None,
    now: Sequence[Step],
    shown: Sequence[Step],
    until: int,
    *,
    is_firing: bool,
) -> Finding | None:
    if usual is None or usual.samples < alert.min_samples:
        return None
    # The history's own error is in its lower bound.
    bound = coverage.falls_to * usual.low
    evidence = _evidence(alert, usual, bound, now, until, is_firing=is_firing)
    good, bad = good_and_bad(shown)
    measured = share(good / (good + bad), good + bad) if good + bad else Measured(0.0, 0.0, 1.0, 0)
    value = evidence.value if sum(good_and_bad(now)) >= alert.min_samples else None
    return measured.finding(bound, value, evidence.since, usual.share, usual.samples)


def _evidence(
    alert: Alert, usual: Usual, bound: float, now: Sequence[Step], until: int, *, is_firing: bool
) -> Evidence:
    after = [usual.share, (bound + usual.share) / 2] if is_firing else [bound * left for left in _LEFT]
    change = Change((bound,) * HOURS, [(after_share,) * HOURS for after_share in after])
    return look_for(change, now, usual.dispersion, alert.false_alarm_every, until)


def _with_result(results: Sequence[Bin], traces: Sequence[Bin], fine_from: int) -> list[Step]:
    """Traces of the service with a result, and without, the latest first; a second result of a trace does not count."""
    found = {step.minute: step.tally.all_results for step in by_step(results, fine_from)}
    steps = []
    for minute, minutes, sent in by_step(traces, fine_from):
        good = min(float(sent.passed), found.get(minute, 0.0))
        steps.append(Step(minute, minutes, good, sent.passed - good))
    return steps


def _that_were_judged(bins: Sequence[Bin], fine_from: int) -> list[Step]:
    """Results that could be judged, and others, as many as their weights are worth; the latest first."""
    steps = []
    for minute, minutes, found in by_step(bins, fine_from):
        weight, squares = found.all_results, found.squares
        samples = weight * weight / squares if squares else 0.0
        good = samples * (found.all_judged) / weight if weight else 0.0
        steps.append(Step(minute, minutes, good, samples - good))
    return steps
