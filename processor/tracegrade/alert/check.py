"""One check of every rule with alerts: which alerts fire, which are resolved."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Protocol

from tracegrade.alert.detect.bound import look_bound
from tracegrade.alert.detect.coverage import look_coverage
from tracegrade.alert.detect.drop import look_drop
from tracegrade.alert.detect.finding import Finding, Firing, Seen
from tracegrade.alert.detect.silence import look_silence
from tracegrade.alert.detect.stands_out import stands_out
from tracegrade.alert.states import Condition, fingerprint_now, next_state, resolved
from tracegrade.alert.window import window_of
from tracegrade.document.duration import duration_text
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Bin, Outcomes, SeriesKey, Window, bins_of
from tracegrade.store.schema import EVERY_TRACE, MINUTE_NS

_NS = 1_000_000_000
_HOUR = 60
# Results are seen by the minute for this long, so that a change is found within its hour; then by the hour.
_FINE_HOURS = 1
_LEAST_EVIDENCE_HOURS = 24
_REPLACED_AFTER = 10  # minutes
# Silence is not ended for being silent before somebody had the time to see to it.
_SILENCE_STALE_AFTER_S = 7 * 86_400


class History(Protocol):
    """Where outcomes come from."""

    def bins(self, rule_id: str, window: Window, by_minute: bool = False) -> Mapping[SeriesKey, Sequence[Bin]]:
        """The outcomes of every series of a rule, as it is in force, within `window`; by the hour, or by the minute.

        For `EVERY_TRACE` in place of a rule's id: how many traces each service sent.
        """
        ...


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What one alert of a rule looked at that did not fire: which series, and why.

    ``evidence`` is the most that any series has, None when no series can be told about; one series needs ``needed`` of
    it. ``without_baseline`` and ``too_few``: series about which nothing can be told yet.
    """

    rule_id: str
    alert: Alert
    evidence: float | None
    needed: int
    without_baseline: int
    too_few: int


@dataclass(slots=True)
class Checked:
    """The result of one check."""

    open: list[StoredAlert] = field(default_factory=list)
    resolved: list[StoredAlert] = field(default_factory=list)
    looked_at: list[LookedAt] = field(default_factory=list)


def alerting_rules(rule_set: RuleSet) -> list[Rule]:
    """The rules that may alert: those with alerts that are not experimental."""
    return [rule for rule in rule_set.rules if rule.alert and rule.status != "experimental"]


def looks_back_s(rules: Iterable[Rule]) -> float:
    """How far back checks of `rules` look, in seconds: evidence, and as much history before it."""
    return 2 * max((alert.evidence_s for rule in rules for alert in rule.alert), default=0.0)


def check(
    history: History,
    rules: Sequence[Rule],
    before: Sequence[StoredAlert],
    now_ns: int,
    earlier: Sequence[StoredAlert] = (),
    earlier_hashes: Mapping[str, str] | None = None,
    stale_after_s: float = inf,
) -> Checked:
    """Check all alerts of `rules` at `now_ns`.

    Args:
        history: the stored outcomes.
        rules: the rules that may alert, as they are in force.
        before: what fired until now.
        now_ns: the end of every window, ns since 1970 UTC; the minute that begins then is not looked at.
        earlier: what was resolved since `looks_back_s`: what made it fire does not again, and is no baseline.
        earlier_hashes: earlier hashes of rules, each with the present hash of its rule.
        stale_after_s: an alert at which nothing came for so many seconds is ended.

    Returns:
        Every alert of `before` in its new state, and the alerts that begin. An alert is resolved, too, when its rule no
        longer has it, when another release has replaced its release, and when nothing comes any more.
    """
    checked = Checked()
    hashes = earlier_hashes or {}
    current: dict[str, StoredAlert] = {}
    for open_alert in before:
        now = fingerprint_now(open_alert, rules, hashes)
        # Of two that are the same by now, one goes on and the other is resolved.
        current[open_alert.fingerprint if now in current else now] = open_alert
    ended: dict[str, int] = {}
    for past in sorted(earlier, key=lambda alert: alert.ends_ns or 0):
        if past.ends_ns is not None:
            ended[fingerprint_now(past, rules, hashes)] = past.ends_ns
    incidents = _incidents([*before, *earlier], now_ns)
    for rule in rules:
        looks = [_Look(history, rule, alert, now_ns, current, ended, incidents) for alert in rule.alert]
        _check_rule(looks, now_ns, checked, stale_after_s)
    present = {rule.id: rule.hash for rule in rules}
    for orphan in current.values():
        known_as = hashes.get(orphan.rule_hash, orphan.rule_hash)
        changed = "alert" if present.get(orphan.rule_id) == known_as else "rule"
        checked.resolved.append(resolved(orphan, now_ns, f"the {changed} was changed or removed"))
    return checked


def _check_rule(looks: "Sequence[_Look]", now_ns: int, checked: Checked, stale_after_s: float) -> None:
    """Check the alerts of one rule at all their series together; takes them out of ``look.current``."""
    findings = [look.findings() for look in looks]
    evidence = {
        (number, key): found.evidence
        for number, (look, some) in enumerate(zip(looks, findings, strict=True))
        for key, found in some.items()
        if found.evidence is not None and not found.is_counted and look.stored(key) is None
    }
    tests = [look.alert for look in looks if not look.alert.is_counted]
    by_chance = max((alert.evidence_s / alert.false_alarm_every for alert in tests), default=1.0)
    standing_out = stands_out(evidence, by_chance)
    for number, (look, some) in enumerate(zip(looks, findings, strict=True)):
        most = max((value for (place, _), value in evidence.items() if place == number), default=None)
        checked.looked_at.append(look.looked_at(some, most, len(evidence)))
    for number, (look, some) in enumerate(zip(looks, findings, strict=True)):
        for key, fingerprint in look.fingerprints.items():
            before = look.current.pop(fingerprint, None)
            after = before
            if before is not None and (successor := look.successor(key)) is not None:
                after = resolved(before, now_ns, f"release {successor} replaced it")
            elif before is not None and (now_ns - look.last_ns(key, before)) / _NS >= (
                stale_s := look.stale_after_s(stale_after_s)
            ):
                after = resolved(before, now_ns, f"nothing came for {duration_text(stale_s)}")
            elif (found := some.get(key)) is not None:
                verdict = found.verdict(before is not None, (number, key) in standing_out)
                after = next_state(before, verdict, Condition(look.rule, look.alert, key), found, now_ns)
            if after is not None:
                (checked.resolved if after.state == "resolved" else checked.open).append(after)


class _Look:
    """One alert of one rule, and the outcomes that it looks at."""

    def __init__(
        self,
        history: History,
        rule: Rule,
        alert: Alert,
        now_ns: int,
        current: dict[str, StoredAlert],
        ended: Mapping[str, int],
        incidents: Mapping[tuple[str, ...], list[tuple[int, int]]],
    ) -> None:
        self.rule, self.alert, self.current = rule, alert, current
        self._history = history
        self._ended = ended
        self._incidents = incidents
        self._hour = now_ns // MINUTE_NS // _HOUR
        self._fine_from = (self._hour - _FINE_HOURS) * _HOUR
        self._shown_from = (now_ns - int(alert.over * _NS)) // MINUTE_NS
        self._until_ns = now_ns
        self._bins = self._read(rule.id)
        self._of_any_release = _by_any_release(self._bins)
        self._traces: Mapping[SeriesKey, Sequence[Bin]] = {}
        if alert.coverage is not None:
            if alert.silent_s is None:
                self._traces = self._read(EVERY_TRACE)
            self._bins = self._of_any_release  # an agent that no longer sends any result is a series, too
        keys = {Condition(rule, alert, key).fingerprint: key for key in self._bins}
        for fingerprint, stored in current.items():
            if stored.rule_id == rule.id:
                place = (stored.tenant, rule.id, rule.hash, alert.evaluation, stored.service, stored.agent)
                series = SeriesKey(*place, stored.release)
                if Condition(rule, alert, series).fingerprint == fingerprint:
                    keys[fingerprint] = series
        self.fingerprints = {key: fingerprint for fingerprint, key in keys.items()}

    def findings(self) -> dict[SeriesKey, Finding]:
        """The finding of each series that has results."""
        found = ((key, self._finding(key)) for key in self._bins)
        return {key: finding for key, finding in found if finding is not None}

    def looked_at(self, findings: Mapping[SeriesKey, Finding], most: float | None, needed: int) -> LookedAt:
        """What is said of this look where it found nothing."""
        too_few = sum(finding.evidence is None for finding in findings.values())
        with_results = sum(bool(bins) and bins[-1].minute >= self._split(key) for key, bins in self._bins.items())
        return LookedAt(self.rule.id, self.alert, most, needed, with_results - len(findings), too_few)

    def stored(self, key: SeriesKey) -> StoredAlert | None:
        """What fires at this series."""
        return self.current.get(self.fingerprints[key])

    def successor(self, key: SeriesKey) -> str | None:
        """The release that sends results in place of the release of `key`, if there is one.

        One that has sent enough results since the last of `key`, in ten minutes or more.
        """
        own = self._bins.get(key, ())
        last = own[-1].minute + own[-1].minutes if own else 0
        for other, bins in self._bins.items():
            later = [item for item in bins if item.minute >= last]
            if (
                other != key
                and _any_release(other) == _any_release(key)
                and later
                and self._until_ns // MINUTE_NS - last >= _REPLACED_AFTER
                and sum(item.outcomes.results for item in later) >= self.alert.min_samples
            ):
                return other.release or "without a name"
        return None

    def last_ns(self, key: SeriesKey, fires: StoredAlert) -> int:
        """When the last result came, of any release; for lost coverage, the last trace. No earlier than it fires."""
        service = SeriesKey(key.tenant, EVERY_TRACE, "", "", key.service, "", None)
        bins = self._traces.get(service) or self._of_any_release.get(_any_release(key)) or ()
        last = bins[-1].minute + bins[-1].minutes if bins else 0
        return max(last * MINUTE_NS, fires.starts_ns)

    def stale_after_s(self, unless_silent_s: float) -> float:
        """After how many seconds without a result it is ended."""
        return max(unless_silent_s, _SILENCE_STALE_AFTER_S) if self.alert.silent_s is not None else unless_silent_s

    def _finding(self, key: SeriesKey) -> Finding | None:
        alert = self.alert
        if alert.silent_s is not None:
            until = self._until_ns // MINUTE_NS
            return look_silence(self._bins[key], alert.silent_s, alert.min_samples, until, self._firing(key))
        seen = self._seen(key, self._bins[key], self._of_any_release[_any_release(key)])
        if alert.below is not None or alert.above is not None:
            return look_bound(self.rule, alert, alert.below or alert.above or 0.0, seen)
        if alert.drop is not None:
            return look_drop(self.rule, alert, alert.drop, seen)
        assert alert.coverage is not None
        service = SeriesKey(key.tenant, EVERY_TRACE, "", "", key.service, "", None)
        traces = self._traces.get(service, ())
        return look_coverage(alert, alert.coverage, seen, self._seen(key, traces, traces))

    def _seen(self, key: SeriesKey, own: Sequence[Bin], of_any_release: Sequence[Bin]) -> Seen:
        firing, split = self._firing(key), self._split(key)
        begin = firing.minute if firing is not None else -(-self._ended.get(self.fingerprints[key], 0) // MINUTE_NS)
        incidents = self._incidents.get((key.tenant, key.rule_id, key.service, key.agent), [])
        return Seen(
            bins=[item for item in own if item.minute >= max(begin, split)],
            before=[
                item
                for item in of_any_release
                if item.minute < split and not any(_overlaps(item, *incident) for incident in incidents)
            ],
            shown=[item for item in own if item.minute + item.minutes > self._shown_from],
            fine_from=self._fine_from,
            until=self._until_ns // MINUTE_NS,
            firing=firing,
        )

    def _split(self, key: SeriesKey) -> int:
        """The minute before which results are history, and from which on they are evidence.

        While there is less history than an alert is measured against, half of it is taken for what is usual.
        """
        hours = ceil(self.alert.evidence_s / 3600)
        if self.alert.needs_history:
            bins = self._of_any_release.get(_any_release(key), ())
            known = self._hour - bins[0].minute // _HOUR if bins else 0
            hours = min(hours, max(_LEAST_EVIDENCE_HOURS, known // 2))
        return (self._hour - hours) * _HOUR

    def _firing(self, key: SeriesKey) -> Firing | None:
        stored = self.stored(key)
        if stored is None:
            return None
        return Firing(stored.starts_ns // MINUTE_NS, stored.facts.was, stored.facts.was_samples)

    def _read(self, rule_id: str) -> Mapping[SeriesKey, Sequence[Bin]]:
        """Outcomes of evidence and history together: by the hour, and by the minute where they are new."""
        first = (self._hour - 2 * ceil(self.alert.evidence_s / 3600)) * _HOUR
        # Silence is told to the minute: so is the hour in which it would have begun.
        begins = self._until_ns // MINUTE_NS - ceil((self.alert.silent_s or 0) / 60)
        silent = min(self._fine_from, begins // _HOUR * _HOUR)
        found: dict[SeriesKey, Sequence[Bin]] = {}
        for since, until, by_minute in (
            (first, silent, False),
            (silent, min(silent + _HOUR, self._fine_from), True),
            (silent + _HOUR, self._fine_from, False),
            (self._fine_from, None, True),
        ):
            until_ns = self._until_ns if until is None else until * MINUTE_NS
            if since * MINUTE_NS < until_ns:
                window = window_of(self.rule, self.alert, since * MINUTE_NS, until_ns)
                for key, bins in self._history.bins(rule_id, window, by_minute).items():
                    found[key] = [*found.get(key, ()), *bins]
        return found


def _incidents(alerts: Iterable[StoredAlert], now_ns: int) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """The minutes from which to which something fired, by tenant, rule, service and agent."""
    found: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for alert in alerts:
        since_ns = min(alert.facts.since_ns or alert.starts_ns, alert.starts_ns)
        until_ns = now_ns if alert.ends_ns is None else alert.ends_ns
        place = (alert.tenant, alert.rule_id, alert.service, alert.agent)
        found[place].append((since_ns // MINUTE_NS, until_ns // MINUTE_NS))
    return found


def _overlaps(item: Bin, first: int, last: int) -> bool:
    return item.minute <= last and item.minute + item.minutes > first


def _any_release(key: SeriesKey) -> SeriesKey:
    return key._replace(release=None)


def _by_any_release(bins: Mapping[SeriesKey, Sequence[Bin]]) -> dict[SeriesKey, Sequence[Bin]]:
    """The outcomes of all releases together: a new release is compared with those before it."""
    of_releases: defaultdict[SeriesKey, list[Sequence[Bin]]] = defaultdict(list)
    for key, some in bins.items():
        of_releases[_any_release(key)].append(some)
    return {key: found[0] if len(found) == 1 else _together(found) for key, found in of_releases.items()}


def _together(of_releases: Iterable[Sequence[Bin]]) -> list[Bin]:
    places: defaultdict[tuple[int, int], list[Outcomes]] = defaultdict(list)
    for bins in of_releases:
        for item in bins:
            places[item.minute, item.minutes].append(item.outcomes)
    return bins_of(places)
