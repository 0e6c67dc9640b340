"""One check of every rule with alerts: which alerts fire, which are resolved."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from tracegrade.alert.detect.finding import Finding
from tracegrade.alert.detect.stands_out import stands_out
from tracegrade.alert.kept import Found, KeptFindings
from tracegrade.alert.look import Accepted, Look, Past
from tracegrade.alert.read import History, Reading, all_releases
from tracegrade.alert.slo import SloStatus
from tracegrade.alert.states import AlertCondition, begun, next_state, resolved
from tracegrade.alert.wording import ALERT_CHANGED, LEVEL_ACCEPTED, RULE_CHANGED, RULE_REMOVED, nothing_came
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import EndReason, StoredAlert, WaitingAlert, WaitingReason, waiting_order
from tracegrade.store.history import SeriesKey
from tracegrade.store.schema import MINUTE_NS

_NS = 1_000_000_000
_HOUR_NS = 60 * MINUTE_NS
_NEVER = 2**62  # a minute that does not come
# Silence is not ended for being silent before somebody had the time to see to it.
_SILENCE_STALE_AFTER_S = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Ending:
    """When an alert ends though nothing recovered, in seconds.

    ``replaced_after``: its release has sent nothing for so long while another did. ``stale_after``: nothing came at all
    for so long.
    """

    replaced_after_s: float = 600.0
    stale_after_s: float = inf


@dataclass(frozen=True, slots=True)
class Before:
    """What was known before a check.

    ``firing``: what fires until now. ``ended``: what was resolved since `looks_back_s`: what made it fire does not
    again, and is no baseline. ``accepted``: keys of alerts in ``firing`` whose level was accepted as the normal one.
    ``in_force``: the hash of every rule that judges, with alerts or without, by its id.
    """

    firing: Sequence[StoredAlert] = ()
    ended: Sequence[StoredAlert] = ()
    accepted: frozenset[str] = frozenset()
    in_force: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What one alert of a rule looked at that did not fire: which series, and why.

    ``evidence`` is the most that any series has, None when no series can be told about; one series needs ``needed`` of
    it. ``without_baseline`` and ``too_few``: the series about which nothing can be told yet. ``too_late``: those that
    would fire, had the release that they are about not been replaced before.
    """

    rule_id: str
    alert: Alert
    evidence: float | None
    needed: int
    without_baseline: Sequence[SeriesKey]
    too_few: Sequence[SeriesKey]
    too_late: Sequence[SeriesKey] = ()


@dataclass(slots=True)
class Checked:
    """The result of one check."""

    open: list[StoredAlert] = field(default_factory=list)
    resolved: list[StoredAlert] = field(default_factory=list)
    looked_at: list[LookedAt] = field(default_factory=list)
    slos: list[SloStatus] = field(default_factory=list)


def alerting_rules(rule_set: RuleSet) -> list[Rule]:
    """The rules that may alert: those with alerts that are not experimental."""
    return [rule for rule in rule_set.rules if rule.alert and rule.status != "experimental"]


def looks_back_s(rules: Iterable[Rule]) -> float:
    """How far back checks of `rules` look, in seconds: evidence, and as much history before it."""
    alerts = [alert for rule in rules for alert in rule.alert]
    return max((max(alert.history_s, alert.slo.window if alert.slo else 0) for alert in alerts), default=0.0)


def slo_statuses(history: History, rules: Iterable[Rule], now_ns: int) -> list[SloStatus]:
    """The error budgets of all objectives of `rules` at `now_ns`, as a check finds them."""
    found = []
    for rule in rules:
        read = Reading(history, rule, now_ns)
        looks = [Look(read, alert, {}, Past(), KeptFindings()) for alert in rule.alert if alert.slo]
        found += [item for look in looks for item in look.slos()]
    return found


def check(
    history: History,
    rules: Sequence[Rule],
    before: Before,
    now_ns: int,
    ending: Ending | None = None,
    kept: KeptFindings | None = None,
) -> Checked:
    """Check all alerts of `rules` at `now_ns`.

    Args:
        history: the stored outcomes.
        rules: the rules that may alert, as they are in force.
        before: what fires, and what fired.
        now_ns: the end of every window, ns since 1970 UTC; the minute that begins then is not looked at.
        ending: when alerts end though nothing recovered.
        kept: what the check before has found, and where this one leaves what it finds. It changes no result.

    Returns:
        Every alert of `before` in its new state, and the alerts that begin. An alert is resolved, too, when its rule no
        longer has it, when its level was accepted, when another release has replaced its release, and when nothing
        comes any more.
    """
    checked, ending = Checked(), ending or Ending()
    kept = KeptFindings() if kept is None else kept
    kept.begin_check(now_ns // _HOUR_NS)
    current = {alert.fingerprint: alert for alert in before.firing}
    for fingerprint, alert in [*current.items()]:
        if alert.key in before.accepted and alert.is_of_history:
            checked.resolved.append(resolved(current.pop(fingerprint), now_ns, "accepted", LEVEL_ACCEPTED))
    past = replace(_past(before, checked.resolved), replaced_after_s=ending.replaced_after_s)
    for rule in rules:
        read = Reading(history, rule, now_ns)
        looks = [Look(read, alert, current, past, kept) for alert in rule.alert]
        _check_rule(looks, current, now_ns, checked, ending)
    present = {**before.in_force, **{rule.id: rule.hash for rule in rules}}
    for orphan in current.values():
        checked.resolved.append(resolved(orphan, now_ns, *_orphaned(orphan, present)))
    return checked


def _orphaned(orphan: StoredAlert, present: Mapping[str, str]) -> tuple[EndReason, str]:
    """Why an alert that no rule has any longer has ended."""
    now = present.get(orphan.rule_id)
    if now is None:
        return "changed", RULE_REMOVED
    if now != orphan.rule_hash:
        return "changed", RULE_CHANGED
    return "changed", ALERT_CHANGED


def _check_rule(
    looks: Sequence[Look], current: dict[str, StoredAlert], now_ns: int, checked: Checked, ending: Ending
) -> None:
    """Check the alerts of one rule at all their series together; takes them out of `current`."""
    found, ended = _found(looks, now_ns, ending)
    findings = [{key: item.finding for key, item in of_look.items() if item.finding is not None} for of_look in found]
    evidence = {
        (number, key): finding.evidence / look.sharing(key)
        for number, (look, some) in enumerate(zip(looks, findings, strict=True))
        for key, finding in some.items()
        if finding.evidence is not None and not finding.is_counted and look.stored(key) is None
    }
    tests = [look.alert for look in looks if not look.alert.is_counted]
    by_chance = max((alert.evidence_s / alert.false_alarm_every for alert in tests), default=1.0)
    agents = len({(number, all_releases(key)) for number, key in evidence})
    standing_out = stands_out(evidence, by_chance, agents)
    too_late = {
        (number, key)
        for number, key in standing_out
        if looks[number].comes_too_late(key, _begun(looks[number], key, findings[number][key], now_ns))
    }
    standing_out -= too_late
    # Where it is one release, it is not all of them.
    standing_out -= {(number, all_releases(key)) for number, key in standing_out if key.release is not None}
    checked.slos += [item for look in looks for item in look.slos()]
    for number, look in enumerate(looks):
        most = max((value for (place, _), value in evidence.items() if place == number), default=None)
        late = [key for key in findings[number] if (number, key) in too_late]
        checked.looked_at.append(_looked_at(look, found[number], most, agents, late))
    for number, (look, some) in enumerate(zip(looks, findings, strict=True)):
        for key, fingerprint in look.fingerprints.items():
            before = current.pop(fingerprint, None)
            after = before
            if before is not None:
                after = ended[number, key] if (number, key) in ended else _ended(look, key, before, now_ns, ending)
            if after is before and (finding := some.get(key)) is not None:
                verdict = finding.verdict(before is not None, (number, key) in standing_out)
                after = next_state(before, verdict, AlertCondition(look.rule, look.alert, key), finding, now_ns)
            if after is not None:
                (checked.resolved if after.state == "resolved" else checked.open).append(after)


def _found(
    looks: Sequence[Look], now_ns: int, ending: Ending
) -> tuple[list[dict[SeriesKey, Found]], dict[tuple[int, SeriesKey], StoredAlert]]:
    """What each look finds, and what fires, as it is after `_ended`.

    Agent by agent, so that what is made for one of them is made once, and its memory is given back before the next.
    """
    found: list[dict[SeriesKey, Found]] = [{} for _ in looks]
    ended = {}
    for place in dict.fromkeys(place for look in looks for place in look.places):
        for number, look in enumerate(looks):
            of_place = look.found(place)
            found[number].update(of_place)
            for key in of_place:
                if (fires := look.stored(key)) is not None:
                    ended[number, key] = _ended(look, key, fires, now_ns, ending)
        for look in looks:
            look.forget(place)
    return found, ended


def _ended(look: Look, key: SeriesKey, fires: StoredAlert, now_ns: int, ending: Ending) -> StoredAlert:
    """What fires, as ended if it is superseded or stale; otherwise as it is."""
    if (replaced := look.superseded(key, fires)) is not None:
        return resolved(fires, now_ns, "superseded", replaced)
    stale_after_s = ending.stale_after_s
    if look.alert.silent_s is not None:
        stale_after_s = max(stale_after_s, _SILENCE_STALE_AFTER_S)
    if stale_after_s < inf and (now_ns - look.last_ns(key, fires)) / _NS >= stale_after_s:
        return resolved(fires, now_ns, "stale", nothing_came(stale_after_s))
    return fires


def _begun(look: Look, key: SeriesKey, finding: Finding, now_ns: int) -> StoredAlert:
    return begun(AlertCondition(look.rule, look.alert, key), finding, now_ns)


def _looked_at(
    look: Look, found: Mapping[SeriesKey, Found], most: float | None, needed: int, too_late: Sequence[SeriesKey]
) -> LookedAt:
    """What is said of a look where it found nothing."""
    without_baseline = [key for key, item in found.items() if item.lacks_baseline]
    # What fires waits for results that tell whether it is over, which is no news.
    too_few = [
        key
        for key, item in found.items()
        if item.finding is not None and item.finding.evidence is None and look.stored(key) is None
    ]
    return LookedAt(look.rule.id, look.alert, most, needed, without_baseline, too_few, too_late)


def _past(before: Before, accepted: Iterable[StoredAlert]) -> Past:
    ended, levels = dict[str, int](), dict[str, Accepted]()
    for alert in sorted([*before.ended, *accepted], key=lambda alert: alert.ends_ns or 0):
        if alert.ends_ns is not None:
            ended[alert.fingerprint] = alert.ends_ns
            if alert.facts.end_reason == "accepted":
                since_ns = alert.starts_ns if alert.facts.since_ns is None else alert.facts.since_ns
                levels[alert.fingerprint] = Accepted(since_ns // MINUTE_NS, -(-alert.ends_ns // MINUTE_NS))
    of_place: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    of_release: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for alert in (*before.firing, *before.ended):
        since_ns = min(alert.facts.since_ns or alert.starts_ns, alert.starts_ns)
        stretch = since_ns // MINUTE_NS, _NEVER if alert.ends_ns is None else alert.ends_ns // MINUTE_NS
        place = (alert.tenant, alert.rule_id, alert.service, alert.agent)
        of_place[place].append(stretch)
        if alert.release is not None:
            of_release[*place, alert.release].append(stretch)
    return Past(ended, levels, of_place, of_release)


# A store with very many agents is not filled with what they wait for.
_MOST = 1000


def waiting_in(looked_at: Iterable[LookedAt], before: Sequence[WaitingAlert], now_ns: int) -> list[WaitingAlert]:
    """The alerts that wait after a check at `now_ns`, at most 1,000; those of `before` keep their times."""
    since = {_place(one): one.since_ns for one in before}
    found: dict[tuple[str, ...], WaitingAlert] = {}
    for looked in looked_at:
        by_reason: dict[WaitingReason, Sequence[SeriesKey]]
        by_reason = {"no_baseline": looked.without_baseline, "too_few": looked.too_few}
        for reason, keys in by_reason.items():
            for key in keys:
                place = _place(_waiting(looked, key, reason, now_ns))
                if key.release is None and len(found) < _MOST:
                    found[place] = _waiting(looked, key, reason, since.get(place, now_ns))
    return sorted(found.values(), key=waiting_order)


def _waiting(looked: LookedAt, key: SeriesKey, reason: WaitingReason, since_ns: int) -> WaitingAlert:
    return WaitingAlert(looked.rule_id, looked.alert.says, key.tenant, key.service, key.agent, reason, since_ns)


def _place(one: WaitingAlert) -> tuple[str, ...]:
    return one.rule_id, one.alert, one.tenant, one.service, one.agent, one.reason
