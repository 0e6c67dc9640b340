"""``alert: {drop}``: has what is watched fallen below its baseline by ``by``?

What is usual is known only so well (see `usual`), and up to a fifth of the way to a fall by ``by``, in log odds, is no
fall: the evidence is against all of that, and for falls of ``by`` and more. While it fires, the way back is looked for
(see `recovery`): a share that stays where it is fires once, at most.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, log

from tracegrade.alert.detect.evidence import LEAST_SHARE, Change, Evidence, certain, far_likelier, look_for
from tracegrade.alert.detect.finding import Finding, Observations, measure, measure_all
from tracegrade.alert.detect.recovery import WayBack, look_back
from tracegrade.alert.detect.steps import (
    as_happened,
    as_kept,
    began,
    counted,
    kept_ratio,
    remembered,
    steps_of,
    worth_of,
)
from tracegrade.alert.detect.usual import Usual, stated, usual_of, usuals_of
from tracegrade.model.tally import total
from tracegrade.rule.alert import Alert
from tracegrade.rule.alert_forms import Drop
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Bin

# Falls of the smallest size that matters, and of larger ones, which are found sooner when they are looked for.
_TIMES = (1.0, 2.0, 4.0)
# So far the share may still lie below the usual one while it fires; first the smallest fall that matters.
_TIMES_STILL = (*_TIMES, 0.5)
_LEAST = 0.01
_DAY = 24 * 60
# What part of the way to the smallest fall that matters, in log odds, is no fall.
_NO_FALL = 0.2


def fall(usual: Usual, by: float) -> Change:
    """The change that is looked for while nothing fires."""
    deepest = min(usual.by_hour)
    sizes = [[share - times * by for share in usual.by_hour] for times in _TIMES if deepest - times * by >= _LEAST]
    sizes = sizes or [[share / 2 for share in usual.by_hour]]
    without = [_towards(share, fallen, _NO_FALL) for share, fallen in zip(usual.by_hour, sizes[0], strict=True)]
    return Change(without, sizes, usual.known_by, usual.lasting)


def _towards(share: float, fallen: float, part: float) -> float:
    """The share that lies so far on the way from one to another, in log odds."""
    odds, of_fallen = (log((1 - one) / one) for one in (certain(share), certain(fallen)))
    return 1 / (1 + exp(odds + part * (of_fallen - odds)))


def way_back(usual: Usual, was: float, by: float) -> WayBack:
    """The way back that is looked for while a fall from `was` fires."""
    back = [share + was - usual.share for share in usual.by_hour]
    return WayBack([[max(share - times * by, share / 4) for share in back] for times in _TIMES_STILL], [back])


def look_drop(rule: Rule, alert: Alert, drop: Drop, seen: Observations) -> Finding | None:
    """Whether what is watched has fallen by ``drop.by`` or more; while it fires, whether it has risen again.

    ``value`` is that of the time since the fall most likely began; when it is over, since the rise did. None when
    nothing was judged, or there is no baseline yet.
    """
    whole, firing = total(item.tally for item in seen.bins), seen.firing
    of_all = measure(rule, alert, whole)
    if of_all is None or not (baselines := _baselines(rule, alert, drop, seen)):
        return None
    usual, evidence = _evidence(rule, alert, drop, seen, baselines)
    shown = seen.shown if firing is not None and evidence.value < 1 else seen.since(evidence.since)
    now = measure_all(rule, alert, shown) or of_all
    return now.finding(
        usual.share - drop.by,
        evidence.value if whole.judged >= alert.min_samples else None,
        began(alert, seen.bins, evidence.since),
        *((usual.share, usual.samples) if firing is None else (firing.was, firing.was_samples)),
    )


def _evidence(
    rule: Rule, alert: Alert, drop: Drop, seen: Observations, baselines: Sequence[Usual]
) -> tuple[Usual, Evidence]:
    """The baseline that shows most, and the mean of what each shows, which is evidence, too: it is 1 as seldom."""
    whole, firing = total(item.tally for item in seen.bins), seen.firing
    ratio = 1.0 if alert.is_of_score else kept_ratio(rule, whole)
    steps = list(steps_of(alert, seen.bins, seen.fine_from, worth_of(alert, whole)))
    found = []
    for usual in baselines if firing is None else baselines[:1]:
        about = steps, usual.dispersion, alert.false_alarm_every, seen.until
        if firing is None:
            found.append((usual, look_for(_kept_change(fall(usual, drop.by), ratio), *about)))
        else:
            way = way_back(usual, firing.was or usual.share, drop.by)
            found.append((usual, look_back(WayBack(_scaled(way.fallen, ratio), _scaled(way.back, ratio)), *about)))
    usual, strongest = max(found, key=lambda one: one[1].value)
    evidence = Evidence(sum(one.value for _, one in found) / len(found), strongest.since)
    if firing is None and seen.beside is not None and _others_fell(rule, alert, seen, usual, evidence):
        return usual, Evidence(0.0, evidence.since)
    return usual, evidence


def _baselines(rule: Rule, alert: Alert, drop: Drop, seen: Observations) -> list[Usual]:
    """What results are compared with: the history just before them, and the oldest, if there is one before that.

    Against the first alone, a share that falls by a little each day takes its baseline along.
    """
    if drop.against.share is not None:
        return [_stated(drop.against.share, alert, drop, seen)]
    if seen.beside is not None and total(item.tally for item in seen.before).judged < alert.min_samples:
        # A service without a history: a release is compared with those beside it.
        worth = worth_of(alert, total(item.tally for item in seen.beside))
        usual = usual_of(steps_of(alert, seen.beside, seen.fine_from, worth), worth)
        return [] if usual is None else [usual]
    latest, _, oldest = _weeks(alert, seen)
    known = [
        _as_happened(rule, alert, usual, bins)
        for bins, usual in zip((latest, oldest), _usuals(alert, drop, seen), strict=True)
        if usual is not None
        and total(item.tally for item in bins).judged >= alert.min_samples
        and usual.share >= _LEAST  # else nothing is left to fall
    ]
    if not known and seen.firing is not None and seen.firing.was is not None:
        # Of a fall that has lasted for as long as history is looked at, what was noted when it was found is left.
        return [_stated(seen.firing.was, alert, drop, seen)]
    return known


def _stated(share: float, alert: Alert, drop: Drop, seen: Observations) -> Usual:
    """A share that is known; how results depend on each other is still told by the history."""
    worth = worth_of(alert, total(item.tally for item in seen.before))
    return stated(share, next((one for one in _usuals(alert, drop, seen) if one is not None), None), worth)


def _weeks(alert: Alert, seen: Observations) -> list[Sequence[Bin]]:
    """The history in three stretches as long as the evidence, the latest first; the oldest is whole, or empty."""
    length = ceil(alert.evidence_s / 60)
    split = seen.until - length  # with less history than that, all of it is one
    latest = [item for item in seen.before if item.minute >= split - length]
    middle = [item for item in seen.before if split - 2 * length <= item.minute < split - length]
    oldest = [item for item in seen.before if item.minute < split - 2 * length]
    is_whole = oldest and oldest[0].minute < split - 3 * length + _DAY  # a part of a week does not know its weekend
    return [latest, middle, oldest if is_whole else []]


def _usuals(alert: Alert, drop: Drop, seen: Observations) -> list[Usual | None]:
    """What is usual by the latest of the `_weeks` with results and by the oldest, of the results that were kept."""

    def make() -> list[Usual | None]:
        worth = worth_of(alert, total(item.tally for item in seen.before))
        weeks = [steps_of(alert, week, seen.fine_from, worth) for week in _weeks(alert, seen)]
        return usuals_of(weeks, drop.by, worth)

    return remembered(("drop", alert.of, drop.by, alert.evidence_s, seen.until), seen.before, make)


def _as_happened(rule: Rule, alert: Alert, usual: Usual, bins: Sequence[Bin]) -> Usual:
    ratio = 1.0 if alert.is_of_score else kept_ratio(rule, total(item.tally for item in bins))
    if ratio == 1:
        return usual
    by_hour = tuple(as_happened(share, ratio) for share in usual.by_hour)
    return replace(usual, by_hour=by_hour, share=as_happened(usual.share, ratio), low=as_happened(usual.low, ratio))


def _others_fell(rule: Rule, alert: Alert, seen: Observations, usual: Usual, evidence: Evidence) -> bool:
    """Whether the other releases may have fallen as far in the same time: their results are not far likelier without.

    Then it is not known to be this release.
    """
    since, first = evidence.since or 0, seen.bins[0].minute
    beside = seen.beside or ()
    others = total(item.tally for item in beside if item.minute >= since)
    own = measure_all(rule, alert, seen.since(since))
    before = measure_all(rule, alert, (item for item in beside if item.minute < first))
    if own is None or others.judged < alert.min_samples:
        return True
    was = usual.share if before is None or before.samples < alert.min_samples else before.value
    ratio = 1.0 if alert.is_of_score else kept_ratio(rule, others)
    fallen = max(LEAST_SHARE, was - (usual.share - own.value))
    return not far_likelier(*counted(alert, others), as_kept(was, ratio), as_kept(fallen, ratio))


def _kept_change(change: Change, ratio: float) -> Change:
    return replace(change, without=_scaled([change.without], ratio)[0], after=_scaled(change.after, ratio))


def _scaled(of_levels: Sequence[Sequence[float]], ratio: float) -> Sequence[Sequence[float]]:
    if ratio == 1:
        return of_levels
    return [[as_kept(max(share, LEAST_SHARE), ratio) for share in shares] for shares in of_levels]
