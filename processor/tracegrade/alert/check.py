"""One check of every rule with alerts: which alerts fire, which are resolved."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from tracegrade.alert.detect.finding import Finding
from tracegrade.alert.detect.stands_out import stands_out
from tracegrade.alert.findings_cache import FindingsCache, Found
from tracegrade.alert.outlook import NotFired
from tracegrade.alert.read import History, Reading, all_releases
from tracegrade.alert.scan import Accepted, Past, Scan
from tracegrade.alert.slo import SloStatus
from tracegrade.alert.states import AlertCondition, begun, next_state, resolved
from tracegrade.alert.wording import ALERT_CHANGED, LEVEL_ACCEPTED, RULE_CHANGED, RULE_REMOVED, nothing_came
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


@dataclass(slots=True)
class Checked:
    """The result of one check."""

    open: list[StoredAlert] = field(default_factory=list)
    resolved: list[StoredAlert] = field(default_factory=list)
    not_fired: list[NotFired] = field(default_factory=list)
    slos: list[SloStatus] = field(default_factory=list)


def alerting_rules(rule_set: RuleSet) -> list[Rule]:
    """The rules that may alert: those with alerts that are not experimental."""
    return [rule for rule in rule_set.rules if rule.alert and rule.status != "experimental"]


def looks_back_s(rules: Iterable[Rule]) -> float:
    """How far back checks of `rules` scan, in seconds: evidence, and as much history before it."""
    alerts = [alert for rule in rules for alert in rule.alert]
    return max((max(alert.history_s, alert.slo.window if alert.slo else 0) for alert in alerts), default=0.0)


def slo_statuses(history: History, rules: Iterable[Rule], now_ns: int) -> list[SloStatus]:
    """The error budgets of all objectives of `rules` at `now_ns`, as a check finds them."""
    found = []
    for rule in rules:
        read = Reading(history, rule, now_ns)
        scans = [Scan(read, alert, {}, Past(), FindingsCache()) for alert in rule.alert if alert.slo]
        found += [item for scan in scans for item in scan.slos()]
    return found


def check(
    history: History,
    rules: Sequence[Rule],
    before: Before,
    now_ns: int,
    ending: Ending | None = None,
    kept: FindingsCache | None = None,
) -> Checked:
    """Check all alerts of `rules` at `now_ns`.

    Args:
        history: the stored outcomes.
        rules: the rules that may alert, as they are in force.
        before: what fires, and what fired.
        now_ns: the end of every window, ns since 1970 UTC; the minute that begins then is not scanned.
        ending: when alerts end though nothing recovered.
        kept: what the check before has found, and where this one leaves what it finds. It changes no result.

    Returns:
        Every alert of `before` in its new state, and the alerts that begin. An alert is resolved, too, when its rule no
        longer has it, when its level was accepted, when another release has replaced its release, and when nothing
        comes any more.
    """
    checked, ending = Checked(), ending or Ending()
    kept = FindingsCache() if kept is None else kept
    kept.begin_check(now_ns // _HOUR_NS)
    current = {alert.fingerprint: alert for alert in before.firing}
    for fingerprint, alert in [*current.items()]:
        if alert.key in before.accepted and alert.is_of_history:
            checked.resolved.append(resolved(current.pop(fingerprint), now_ns, "accepted", LEVEL_ACCEPTED))
    past = replace(_past(before, checked.resolved), replaced_after_s=ending.replaced_after_s)
    for rule in rules:
        read = Reading(history, rule, now_ns)
        scans = [Scan(read, alert, current, past, kept) for alert in rule.alert]
        _check_rule(scans, current, now_ns, checked, ending)
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
    scans: Sequence[Scan], current: dict[str, StoredAlert], now_ns: int, checked: Checked, ending: Ending
) -> None:
    """Check the alerts of one rule at all their series together; takes them out of `current`."""
    found, ended = _found(scans, now_ns, ending)
    findings = [{key: item.finding for key, item in of_look.items() if item.finding is not None} for of_look in found]
    evidence = {
        (number, key): finding.evidence / scan.sharing(key)
        for number, (scan, some) in enumerate(zip(scans, findings, strict=True))
        for key, finding in some.items()
        if finding.evidence is not None and not finding.is_counted and scan.stored(key) is None
    }
    tests = [scan.alert for scan in scans if not scan.alert.is_counted]
    by_chance = max((alert.evidence_s / alert.false_alarm_every for alert in tests), default=1.0)
    agents = len({(number, all_releases(key)) for number, key in evidence})
    standing_out = stands_out(evidence, by_chance, agents)
    too_late = {
        (number, key)
        for number, key in standing_out
        if scans[number].comes_too_late(key, _begun(scans[number], key, findings[number][key], now_ns))
    }
    standing_out -= too_late
    # Where it is one release, it is not all of them.
    standing_out -= {(number, all_releases(key)) for number, key in standing_out if key.release is not None}
    checked.slos += [item for scan in scans for item in scan.slos()]
    for number, scan in enumerate(scans):
        most = max((value for (place, _), value in evidence.items() if place == number), default=None)
        late = [key for key in findings[number] if (number, key) in too_late]
        checked.not_fired.append(_not_fired(scan, found[number], most, agents, late))
    for number, (scan, some) in enumerate(zip(scans, findings, strict=True)):
        for key, fingerprint in scan.fingerprints.items():
            before = current.pop(fingerprint, None)
            after = before
            if before is not None:
                after = ended[number, key] if (number, key) in ended else _ended(scan, key, before, now_ns, ending)
            if after is before and (finding := some.get(key)) is not None:
                verdict = finding.verdict(before is not None, (number, key) in standing_out)
                after = next_state(before, verdict, AlertCondition(scan.rule, scan.alert, key), finding, now_ns)
            if after is not None:
                (checked.resolved if after.state == "resolved" else checked.open).append(after)


def _found(
    scans: Sequence[Scan], now_ns: int, ending: Ending
) -> tuple[list[dict[SeriesKey, Found]], dict[tuple[int, SeriesKey], StoredAlert]]:
    """What each scan finds, and what fires, as it is after `_ended`.

    Agent by agent, so that what is made for one of them is made once, and its memory is given back before the next.
    """
    found: list[dict[SeriesKey, Found]] = [{} for _ in scans]
    ended = {}
    for place in dict.fromkeys(place for scan in scans for place in scan.places):
        for number, scan in enumerate(scans):
            of_place = scan.found(place)
            found[number].update(of_place)
            for key in of_place:
                if (fires := scan.stored(key)) is not None:
                    ended[number, key] = _ended(scan, key, fires, now_ns, ending)
        for scan in scans:
            scan.forget(place)
    return found, ended


def _ended(scan: Scan, key: SeriesKey, fires: StoredAlert, now_ns: int, ending: Ending) -> StoredAlert:
    """What fires, as ended if it is superseded or stale; otherwise as it is."""
    if (replaced := scan.superseded(key, fires)) is not None:
        return resolved(fires, now_ns, "superseded", replaced)
    stale_after_s = ending.stale_after_s
    if scan.alert.silent_s is not None:
        stale_after_s = max(stale_after_s, _SILENCE_STALE_AFTER_S)
    if stale_after_s < inf and (now_ns - scan.last_ns(key, fires)) / _NS >= stale_after_s:
        return resolved(fires, now_ns, "stale", nothing_came(stale_after_s))
    return fires


def _begun(scan: Scan, key: SeriesKey, finding: Finding, now_ns: int) -> StoredAlert:
    return begun(AlertCondition(scan.rule, scan.alert, key), finding, now_ns)


def _not_fired(
    scan: Scan, found: Mapping[SeriesKey, Found], most: float | None, needed: int, too_late: Sequence[SeriesKey]
) -> NotFired:
    """The series at which a scan found nothing, by reason."""
    without_baseline = [key for key, item in found.items() if item.lacks_baseline]
    # What fires waits for results that tell whether it is over, which is no news.
    too_few = [
        key
        for key, item in found.items()
        if item.finding is not None and item.finding.evidence is None and scan.stored(key) is None
    ]
    return NotFired(scan.rule.id, scan.alert, most, needed, without_baseline, too_few, too_late)


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


def waiting_in(not_fired: Iterable[NotFired], before: Sequence[WaitingAlert], now_ns: int) -> list[WaitingAlert]:
    """The alerts that wait after a check at `now_ns`, at most 1,000; those of `before` keep their times."""
    since = {_place(one): one.since_ns for one in before}
    found: dict[tuple[str, ...], WaitingAlert] = {}
    for item in not_fired:
        by_reason: dict[WaitingReason, Sequence[SeriesKey]]
        by_reason = {"no_baseline": item.without_baseline, "too_few": item.too_few}
        for reason, keys in by_reason.items():
            for key in keys:
                place = _place(_waiting(item, key, reason, now_ns))
                if key.release is None and len(found) < _MOST:
                    found[place] = _waiting(item, key, reason, since.get(place, now_ns))
    return sorted(found.values(), key=waiting_order)


def _waiting(item: NotFired, key: SeriesKey, reason: WaitingReason, since_ns: int) -> WaitingAlert:
    return WaitingAlert(item.rule_id, item.alert.says, key.tenant, key.service, key.agent, reason, since_ns)


def _place(one: WaitingAlert) -> tuple[str, ...]:
    return one.rule_id, one.alert, one.tenant, one.service, one.agent, one.reason
