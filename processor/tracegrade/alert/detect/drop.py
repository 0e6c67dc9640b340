"""``alert: {drop}``: has the watched share fallen against a stated baseline, or against the stored history?

The test is `DropDetector`'s, fed with the bins of the window. It is computed at every check from the stored results, so
that a restart loses nothing and a revision corrects it.

A worked example: ``{drop: {against: 7d, by: 0.1}, over: 1h, min_samples: 30}``.

1. The 7 days before the window hold 1000 results, 950 of them passes: the baseline is 0.95. It was measured, so its
   results are compared with its lower confidence bound at error `BASELINE_ERROR`: 0.926.
2. The window holds 40 results in 6 bins: two of 10 passes, then four of 5 results, half of them fails. Each bin is
   added to the detector, whose evidence is 744,603 at the end, and which says that the fall began with the first bin of
   fails.
3. ``value`` is the share since that bin, 0.5; ``p_value`` is 1 / evidence. `check` compares it, together with those of
   the other series, with 1 / ``false_alarm_every``, and the alert fires.
4. While it fires, the baseline stays 0.95 (`Fallen`), so that it does not sink with the results. It is over when the
   results show a rise with as much evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tracegrade.alert.detect.finding import Finding, kept_ratio, measure
from tracegrade.alert.detect.sequential import DropDetector
from tracegrade.rule.alert import Alert, Drop
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Bin, Outcomes, total

# The probability that the lower bound of a measured baseline is wrong.
BASELINE_ERROR = 0.01


@dataclass(frozen=True, slots=True)
class Fallen:
    """A fall that fires: the value before, its number of results and lower confidence bound; the minute since it fires.

    While it fires, the baseline must not follow the fall.
    """

    was: float
    was_samples: int
    bound: float
    minute: int


def look_drop(
    rule: Rule, alert: Alert, drop: Drop, bins: Sequence[Bin], before: Outcomes, fallen: Fallen | None = None
) -> Finding | None:
    """Whether what is watched has fallen by ``drop.by`` or more.

    Args:
        rule: the alert's rule.
        alert: the watched number, and the minimum of results.
        drop: the baseline and the size of the fall.
        bins: of one series, within the window and since it last fired, in order of time.
        before: of the same rule, agent and service, of any release, in the history before the window.
        fallen: the fall, while it fires; it is over when a rise back is as certain as the fall was.

    Returns:
        ``value`` is that of the time since the fall most likely began. ``p_value`` is 1 / evidence. None when nothing
        was judged, or there is no baseline yet.
    """
    now = total(item.outcomes for item in bins)
    baseline = (fallen.was, fallen.was_samples, fallen.bound) if fallen else _baseline(rule, alert, drop, before)
    whole = measure(rule, alert, now)
    if whole is None or baseline is None:
        return None
    was, was_samples, bound = baseline
    ratio = kept_ratio(rule, now)
    detector = DropDetector(bound, drop.by, usual=was, ratio=ratio)
    for item in bins:
        detector.add(*_counts(alert, item.outcomes))
    since = detector.since
    measured = measure(rule, alert, total(item.outcomes for item in bins[since:])) or whole
    low, high = measured.bounds(1 - alert.confidence)
    return Finding(
        value=measured.value,
        low=low,
        high=high,
        samples=round(measured.samples),
        bound=bound,
        p_value=1 / max(detector.evidence, 1.0) if now.judged >= alert.min_samples else None,
        recovered=fallen is not None and _rose(alert, drop, bins, fallen, ratio),
        was=was,
        was_samples=was_samples,
        since_minute=bins[since or 0].minute,
    )


def _baseline(rule: Rule, alert: Alert, drop: Drop, before: Outcomes) -> tuple[float, int, float] | None:
    """The value before, its number of results (0: stated in the rule), and its lower confidence bound."""
    if drop.against.share is not None:
        return drop.against.share, 0, drop.against.share
    measured = measure(rule, alert, before)
    if measured is None or before.judged < alert.min_samples:
        return None
    return measured.value, before.judged, measured.lower_confidence_bound(BASELINE_ERROR)


def _counts(alert: Alert, outcomes: Outcomes) -> tuple[float, float]:
    """Results as passes and fails: scores are parts of a pass, and count by their effective sample size."""
    if not alert.is_of_score or outcomes.judged == 0:
        return outcomes.passed, outcomes.failed
    weight = outcomes.all_passed + outcomes.all_failed
    samples = weight * weight / outcomes.judged_squares
    passed = samples * outcomes.all_scores / weight
    return passed, samples - passed


def _rose(alert: Alert, drop: Drop, bins: Sequence[Bin], fallen: Fallen, ratio: float) -> bool:
    """Whether results have recovered since it fires: whether the share of fails has fallen by as much."""
    after = max(fallen.was - drop.by, fallen.was / 2)
    detector = DropDetector(1 - after, fallen.was - after, ratio=1 / ratio)
    for item in bins:
        if item.minute >= fallen.minute:
            passed, failed = _counts(alert, item.outcomes)
            detector.add(failed, passed)
    return detector.evidence >= drop.false_alarm_every
