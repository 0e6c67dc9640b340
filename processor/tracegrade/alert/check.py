"""One check of every rule with alerts: which alerts are pending, which fire, which are resolved."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tracegrade.alert.detect.below import look_above, look_below
from tracegrade.alert.detect.benjamini_hochberg import benjamini_hochberg
from tracegrade.alert.detect.coverage import look_coverage
from tracegrade.alert.detect.drop import Fallen, look_drop
from tracegrade.alert.detect.finding import Finding
from tracegrade.alert.states import Condition, fingerprint_now, next_state, resolved
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import NO_OUTCOMES, Bin, Outcomes, SeriesKey, Window, total
from tracegrade.store.schema import EVERY_TRACE, MINUTE_NS

_NS = 1_000_000_000
_HOUR_NS = 60 * MINUTE_NS


class History(Protocol):
    """The source of outcomes."""

    def sums(self, rule_id: str, window: Window) -> Mapping[SeriesKey, Outcomes]:
        """The sum of outcomes of every series of a rule, with its hash in force, within `window`.

        With `EVERY_TRACE` in place of a rule's id: the number of traces that each service sent.
        """
        ...

    def bins(self, rule_id: str, window: Window) -> Mapping[SeriesKey, list[Bin]]:
        """The outcomes of every series of a rule within `window`, bin by bin."""
        ...


@dataclass(slots=True)
class Checked:
    """The result of one check; ``dropped`` are alerts that were pending and never fired."""

    open: list[StoredAlert] = field(default_factory=list)
    resolved: list[StoredAlert] = field(default_factory=list)
    dropped: list[StoredAlert] = field(default_factory=list)


def alerting_rules(rule_set: RuleSet) -> list[Rule]:
    """The rules that may alert: those with alerts that are not experimental."""
    return [rule for rule in rule_set.rules if rule.alert and rule.status != "experimental"]


def check(
    history: History,
    rules: Sequence[Rule],
    before: Sequence[StoredAlert],
    now_ns: int,
    ended: Mapping[str, int] | None = None,
    earlier_hashes: Mapping[str, str] | None = None,
) -> Checked:
    """Check all alerts of `rules` at `now_ns`.

    Args:
        history: the stored outcomes.
        rules: the rules that may alert, as they are in force.
        before: the alerts that fired or were pending until now.
        now_ns: the end of every window, ns since 1970 UTC.
        ended: when alerts, by `fingerprint_now`, were last resolved: results before that are no new fall.
        earlier_hashes: earlier hashes of rules, each with the present hash of its rule.

    Returns:
        Every alert of `before` in its new state, and the alerts that begin. An alert is also resolved when its rule no
        longer has it, and when another release has replaced its release.
    """
    current: dict[str, StoredAlert] = {}
    for open_alert in before:
        now = fingerprint_now(open_alert, rules, earlier_hashes or {})
        # Of two alerts that have become the same, one goes on and the other is resolved.
        current[open_alert.fingerprint if now in current else now] = open_alert
    checked = Checked()
    for rule in rules:
        for alert in rule.alert:
            _check_one(_Look(history, rule, alert, now_ns, current, ended or {}), checked)
    hashes = {rule.id: rule.hash for rule in rules}
    for orphan in current.values():
        known_as = (earlier_hashes or {}).get(orphan.rule_hash, orphan.rule_hash)
        changed = "alert" if hashes.get(orphan.rule_id) == known_as else "rule"
        _end(checked, orphan, resolved(orphan, now_ns, f"the {changed} was changed or removed"))
    return checked


def _check_one(look: "_Look", checked: Checked) -> None:
    """Check one alert of one rule for all its series; removes the alerts of these series from ``look.current``."""
    findings = dict(look.findings())
    tested = {key: found.p_value for key, found in findings.items() if found.p_value is not None}
    error = 1 / look.alert.drop.false_alarm_every if look.alert.drop is not None else 1 - look.alert.confidence
    standing_out = benjamini_hochberg(tested, error)
    for key, finding in findings.items():
        before = look.current.pop(look.fingerprints[key], None)
        verdict = finding.verdict(key in standing_out)
        after = next_state(before, verdict, Condition(look.rule, look.alert, key), finding, look.now_ns)
        _end(checked, before, after)
    for key, fingerprint in look.fingerprints.items():
        if key not in findings and (silent := look.current.pop(fingerprint, None)) is not None:
            successor = look.successor(key)
            gone = resolved(silent, look.now_ns, f"release {successor} replaced it") if successor else silent
            _end(checked, silent, gone)


def _end(checked: Checked, before: StoredAlert | None, after: StoredAlert | None) -> None:
    if after is None or (after.state == "resolved" and before is not None and before.state == "pending"):
        if before is not None:
            checked.dropped.append(before)
    elif after.state == "resolved":
        checked.resolved.append(after)
    else:
        checked.open.append(after)


class _Look:
    """One alert of one rule, and the outcomes that it reads."""

    def __init__(
        self,
        history: History,
        rule: Rule,
        alert: Alert,
        now_ns: int,
        current: dict[str, StoredAlert],
        ended: Mapping[str, int],
    ) -> None:
        self.rule, self.alert, self.now_ns, self.current = rule, alert, now_ns, current
        self._history = history
        self._ended = ended
        self._since_ns = now_ns - int(alert.over * _NS)
        if alert.drop is not None or alert.coverage is not None:
            # Whole hours, so that the window begins and the history ends where sums by hour do.
            self._since_ns -= self._since_ns % _HOUR_NS
        self._bins: Mapping[SeriesKey, list[Bin]] = {}
        self._now: Mapping[SeriesKey, Outcomes]
        self._window = self._within(self._since_ns, now_ns + 1)
        if alert.drop is not None:
            self._bins = history.bins(rule.id, self._window)
            self._now = {key: total(item.outcomes for item in bins) for key, bins in self._bins.items()}
        else:
            self._now = history.sums(rule.id, self._window)
        self._earlier: dict[SeriesKey, Outcomes] = {}
        against_s = alert.coverage.against if alert.coverage else alert.drop.against.history if alert.drop else None
        if against_s is not None:
            before_ns = self._since_ns - int(against_s * _NS)
            self._before = self._within(before_ns - before_ns % _HOUR_NS, self._since_ns)
            self._earlier = _by_any_release(history.sums(rule.id, self._before))
        if alert.coverage is not None:
            # All releases together; an agent that no longer sends results is a series too.
            self._now = {**dict.fromkeys(self._earlier, NO_OUTCOMES), **_by_any_release(self._now)}
        keys = {Condition(rule, alert, key).fingerprint: key for key in self._now}
        for fingerprint, stored in current.items():
            if stored.rule_id == rule.id:
                place = (stored.tenant, rule.id, rule.hash, alert.evaluation, stored.service, stored.agent)
                series = SeriesKey(*place, stored.release)
                if Condition(rule, alert, series).fingerprint == fingerprint:
                    keys[fingerprint] = series
        self.fingerprints = {key: fingerprint for fingerprint, key in keys.items()}

    def findings(self) -> Iterator[tuple[SeriesKey, Finding]]:
        """The finding of each series that has results."""
        for key in self._now:
            if (found := self._finding(key)) is not None:
                yield key, found

    def successor(self, key: SeriesKey) -> str | None:
        """The release that sends results in place of the release of `key`, if there is one."""
        for other, now in self._now.items():
            is_another = other != key and _any_release(other) == _any_release(key)
            if is_another and now.results >= self.alert.min_samples:
                return other.release or "without a name"
        return None

    def _finding(self, key: SeriesKey) -> Finding | None:
        alert, now = self.alert, self._now[key]
        if alert.below is not None:
            return look_below(self.rule, alert, alert.below, now)
        if alert.above is not None:
            return look_above(alert, alert.above, now)
        if alert.drop is not None:
            bins = self._bins[key]
            if (ended_ns := self._ended.get(self.fingerprints[key])) is not None:
                bins = [item for item in bins if item.minute * MINUTE_NS >= ended_ns]
            before = self._earlier.get(_any_release(key), NO_OUTCOMES)
            return look_drop(self.rule, alert, alert.drop, bins, before, self._fallen(key))
        assert alert.coverage is not None
        before = self._earlier.get(key, NO_OUTCOMES)
        traces = self._traces(key, self._window), self._traces(key, self._before)
        return look_coverage(alert, alert.coverage, now, before, *traces)

    def _fallen(self, key: SeriesKey) -> Fallen | None:
        stored = self.current.get(self.fingerprints[key])
        if stored is None or stored.state != "firing" or stored.facts.was is None:
            return None
        return Fallen(stored.facts.was, stored.facts.was_samples, stored.bound, stored.starts_ns // MINUTE_NS)

    def _within(self, since_ns: int, until_ns: int) -> Window:
        return Window(self.alert.evaluation, since_ns, until_ns, self.rule.incomplete == "count")

    def _traces(self, key: SeriesKey, window: Window) -> int:
        """The number of traces that the service sent, judged or not."""
        service = SeriesKey(key.tenant, EVERY_TRACE, "", "", key.service, "", None)
        found = self._history.sums(EVERY_TRACE, window)
        return found.get(service, NO_OUTCOMES).passed


def _any_release(key: SeriesKey) -> SeriesKey:
    return key._replace(release=None)


def _by_any_release(sums: Mapping[SeriesKey, Outcomes]) -> dict[SeriesKey, Outcomes]:
    """The outcomes of all releases together: a new release is compared with those before it."""
    found: defaultdict[SeriesKey, list[Outcomes]] = defaultdict(list)
    for key, outcomes in sums.items():
        found[_any_release(key)].append(outcomes)
    return {key: total(parts) for key, parts in found.items()}
