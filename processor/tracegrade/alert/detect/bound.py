"""``alert: {below}`` and ``{above}``: does what is watched lie past its bound?

It fires on evidence against every share of good results at the bound or better. While it fires, the way back to shares
better than ``resolve_at`` (the bound, unless set) is looked for, see `recovery`: a share that stays where it is fires
once, at most.
"""

from tracegrade.alert.detect.evidence import HOURS, Change, Evidence, look_for
from tracegrade.alert.detect.finding import Finding, Observations, measure, measure_all
from tracegrade.alert.detect.recovery import WayBack, look_back
from tracegrade.alert.detect.steps import as_kept, began, kept_ratio, remembered, steps_of, worth_of
from tracegrade.alert.detect.usual import dispersion_of
from tracegrade.model.tally import Tally, total
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.watched import UNJUDGED

# So many times as many bad results for each good one, or so many times fewer: shares near the bound and far from it.
_TIMES_THE_ODDS = (1.5, 2.5, 6.0)
# So far the share may still lie past the bound while it fires; first the smallest step that is looked for.
_TIMES_STILL = (*_TIMES_THE_ODDS, 1.25)
_DAY = 24 * 60


def past_bound(bound: float) -> Change:
    """The change that is looked for while nothing fires; `bound` is a share of good results."""
    return Change((bound,) * HOURS, [(with_odds(bound, times),) * HOURS for times in _TIMES_THE_ODDS])


def back_again(resolve_at: float) -> WayBack:
    """The way back that is looked for while it fires: to a share of good results above `resolve_at`."""
    past, back = (
        [(with_odds(resolve_at, times),) * HOURS for times in odds]
        for odds in (_TIMES_STILL, [1 / times for times in _TIMES_THE_ODDS])
    )
    return WayBack(past, back)


def with_odds(share: float, times: float) -> float:
    """The share of good results at which so many times as many bad ones come for each good one."""
    return share / (share + times * (1 - share))


def look_bound(rule: Rule, alert: Alert, bound: float, seen: Observations) -> Finding | None:
    """Whether what is watched lies past `bound`; while it fires, whether it is back. None when nothing was judged.

    ``value`` is that of the window that the alert names; of all the evidence, when that window is empty; of the results
    since it recovered, when it has.
    """
    whole = total(item.tally for item in seen.bins)
    evidence = _evidence(rule, alert, bound, seen, whole)
    has_recovered = seen.firing is not None and evidence.value >= 1
    shown = seen.since(evidence.since) if has_recovered else seen.shown
    now = measure_all(rule, alert, shown) or measure(rule, alert, whole)
    if now is None:
        return None
    samples = whole.results if alert.of in UNJUDGED else whole.judged
    value = evidence.value if samples >= alert.min_samples else None
    return now.finding(bound, value, began(alert, seen.bins, evidence.since))


def _evidence(rule: Rule, alert: Alert, bound: float, seen: Observations, whole: Tally) -> Evidence:
    """None of a release that is past the bound like all others: it is not this one."""
    is_share = alert.of in UNJUDGED
    worth = worth_of(alert, whole)
    resolve_at = bound if alert.resolve_at is None else alert.resolve_at
    # The share of bad results is bounded above where that of good ones is bounded below.
    limit = bound if seen.firing is None else resolve_at
    limit = 1 - limit if is_share else limit
    if not is_share and not alert.is_of_score:
        limit = as_kept(limit, kept_ratio(rule, whole))
    steps = steps_of(alert, seen.bins, seen.fine_from, worth)
    about = steps, _dispersion(alert, seen, worth), alert.false_alarm_every, seen.until
    if seen.firing is not None:
        return look_back(back_again(limit), *about)
    found = look_for(past_bound(limit), *about)
    if seen.beside is not None and found.value >= 1:
        others = measure_all(rule, alert, (item for item in seen.beside if item.minute >= (found.since or 0)))
        if others is None or (others.value > bound if is_share else others.value < bound):
            return Evidence(0.0, found.since)
    return found


def _dispersion(alert: Alert, seen: Observations, worth: float) -> float:
    """Of the history and all evidence but that of a day: what may be the fall says nothing about how hours differ.

    While it fires, of the history alone.
    """
    settled = list(seen.before)
    if seen.firing is None:
        settled += (item for item in seen.bins if item.minute < seen.fine_from - _DAY)
    return remembered(
        ("bound", alert.of, worth),
        settled,
        lambda: dispersion_of(steps_of(alert, settled, seen.fine_from, worth), worth),
    )
