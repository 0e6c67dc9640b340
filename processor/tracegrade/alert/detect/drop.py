"""``alert: {drop}``: has what is watched fallen below its baseline by ``by``?

A fall of half of ``by`` or less is no fall: the evidence is against it, and for falls of ``by`` and more. The end of a
fall is found in the same way from the other side: the evidence is against a share that is still half of ``by`` below
the baseline, and for the baseline itself. So a share that stays where it is fires once, at most.
"""

from dataclasses import replace

from tracegrade.alert.detect.evidence import LEAST_SHARE, Change, Evidence, far_likelier, look_for
from tracegrade.alert.detect.finding import Finding, Seen, measure
from tracegrade.alert.detect.remembered import remembered
from tracegrade.alert.detect.sampling import as_happened, as_kept, kept_ratio
from tracegrade.alert.detect.steps import began, counted, steps_of, worth_of
from tracegrade.alert.detect.usual import Usual, dispersion_of, stated, usual_of, without_incidents
from tracegrade.model.tally import Tally, total
from tracegrade.rule.alert import Alert
from tracegrade.rule.alert_forms import Drop
from tracegrade.rule.rule import Rule

# Falls of the smallest size that matters, and of larger ones, which are found sooner when they are looked for.
_TIMES = (1.0, 2.0, 4.0)
_LEAST = 0.01


def fall(usual: Usual, by: float) -> Change:
    """The change that is looked for while nothing fires.

    The baseline's own error is on the side of no fall: it does not become alarms.
    """
    error = usual.share - usual.low
    without = [share - error - _half(share, by) for share in usual.by_hour]
    sizes = [
        [share - times * by for share in usual.by_hour]
        for times in _TIMES
        if min(usual.by_hour) - times * by >= _LEAST and times * by > error + by / 2
    ]
    return Change(without, sizes or [[share / 2 for share in without]])


def rise_back(usual: Usual, was: float, by: float) -> Change:
    """The change that is looked for while a fall from `was` fires."""
    before = [share + was - usual.share for share in usual.by_hour]
    return Change([share - _half(share, by) for share in before], [before])


def _half(share: float, by: float) -> float:
    return min(by / 2, share / 2)


def look_drop(rule: Rule, alert: Alert, drop: Drop, seen: Seen) -> Finding | None:
    """Whether what is watched has fallen by ``drop.by`` or more; while it fires, whether it has risen again.

    ``value`` is that of the time since the fall most likely began; when it is over, since the rise did. None when
    nothing was judged, or there is no baseline yet.
    """
    whole = total(item.tally for item in seen.bins)
    now, before = measure(rule, alert, whole), total(item.tally for item in seen.before)
    usual = _usual(rule, alert, drop, seen, before)
    if now is None or usual is None:
        return None
    worth = worth_of(alert, whole)
    steps = steps_of(alert, seen.bins, seen.fine_from, worth)
    firing = seen.firing
    change = fall(usual, drop.by) if firing is None else rise_back(usual, firing.was or usual.share, drop.by)
    evidence = look_for(
        _kept(change, 1.0 if alert.is_of_score else kept_ratio(rule, whole)),
        steps,
        usual.dispersion,
        alert.false_alarm_every,
        seen.until,
    )
    if firing is None and seen.beside is not None and _others_fell(rule, alert, seen, usual, evidence):
        evidence = Evidence(0.0, evidence.since)
    if firing is not None and evidence.value < 1:
        now = measure(rule, alert, total(item.tally for item in seen.shown)) or now
    elif evidence.since is not None:
        changed = [item.tally for item in seen.bins if item.minute >= evidence.since]
        now = measure(rule, alert, total(changed)) or now
    return Finding(
        value=now.value,
        low=now.low,
        high=now.high,
        samples=round(now.samples),
        bound=usual.share - drop.by,
        evidence=evidence.value if whole.judged >= alert.min_samples else None,
        was=usual.share if firing is None else firing.was,
        was_samples=round(usual.samples) if firing is None else firing.was_samples,
        since=began(alert, seen.bins, evidence.since),
    )


def _usual(rule: Rule, alert: Alert, drop: Drop, seen: Seen, before: Tally) -> Usual | None:
    worth = worth_of(alert, before)

    def make() -> tuple[Usual | None, float]:
        steps = without_incidents(steps_of(alert, seen.before, seen.fine_from, worth), drop.by)
        return usual_of(steps, worth), dispersion_of(steps, worth)

    if seen.beside is not None and before.judged < alert.min_samples and drop.against.share is None:
        # A service without a history: a release is compared with those beside it.
        return usual_of(steps_of(alert, seen.beside, seen.fine_from, worth), worth)
    found, dispersion = remembered(("drop", alert.of, drop.by), seen.before, make)
    if drop.against.share is not None:
        return stated(drop.against.share, dispersion)
    if before.judged < alert.min_samples or found is None:
        # Of a fall that has lasted for as long as history is looked at, what was noted when it was found is left.
        was = None if seen.firing is None else seen.firing.was
        return None if was is None else stated(was, dispersion)
    if alert.is_of_score or (ratio := kept_ratio(rule, before)) == 1:
        return found
    by_hour = tuple(as_happened(share, ratio) for share in found.by_hour)
    bounds = as_happened(found.share, ratio), as_happened(found.low, ratio)
    return replace(found, by_hour=by_hour, share=bounds[0], low=bounds[1])


def _others_fell(rule: Rule, alert: Alert, seen: Seen, usual: Usual, evidence: Evidence) -> bool:
    """Whether the other releases may have fallen as far in the same time: their results are not far likelier without.

    Then it is not known to be this release.
    """
    since, first = evidence.since or 0, seen.bins[0].minute
    beside = seen.beside or ()
    others = total(item.tally for item in beside if item.minute >= since)
    own = measure(rule, alert, total(item.tally for item in seen.bins if item.minute >= since))
    before = measure(rule, alert, total(item.tally for item in beside if item.minute < first))
    if own is None or others.judged < alert.min_samples:
        return True
    was = usual.share if before is None or before.samples < alert.min_samples else before.value
    ratio = 1.0 if alert.is_of_score else kept_ratio(rule, others)
    fallen = max(LEAST_SHARE, was - (usual.share - own.value))
    return not far_likelier(*counted(alert, others), as_kept(was, ratio), as_kept(fallen, ratio))


def _kept(change: Change, ratio: float) -> Change:
    if ratio == 1:
        return change
    return Change(
        [as_kept(share, ratio) for share in change.without],
        [[as_kept(max(share, LEAST_SHARE), ratio) for share in after] for after in change.after],
    )
