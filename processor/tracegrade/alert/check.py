"""One look at every rule with alerts: what is pending, what fires, what is resolved."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tracegrade.alert.below import look_above, look_below
from tracegrade.alert.coverage import look_coverage
from tracegrade.alert.discoveries import discoveries
from tracegrade.alert.drop import Fallen, look_drop
from tracegrade.alert.finding import Finding
from tracegrade.alert.states import Condition, next_state, resolved
from tracegrade.match.alert import SHARES, Alert
from tracegrade.match.rule import Rule
from tracegrade.match.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Bin, Outcomes, SeriesKey, total
from tracegrade.store.schema import EVERY_TRACE, MINUTE_NS, WHOLE_RULE

_NS = 1_000_000_000
_HOUR_NS = 60 * MINUTE_NS
_NOTHING = Outcomes()


class History(Protocol):
    """Where outcomes come from."""

    def window(
        self, rule_id: str, since_ns: int, until_ns: int, count_incomplete: bool
    ) -> Mapping[SeriesKey, list[Bin]]:
        """The bins of every series of a rule within a time; of the series that count traces for `EVERY_TRACE`."""
        ...


@dataclass(slots=True)
class Checked:
    """What a look came to; ``dropped`` were pending and came to nothing."""

    open: list[StoredAlert] = field(default_factory=list)
    resolved: list[StoredAlert] = field(default_factory=list)
    dropped: list[StoredAlert] = field(default_factory=list)


def alerting_rules(rule_set: RuleSet) -> list[Rule]:
    """The rules that may alert: those with alerts, but experimental ones."""
    return [rule for rule in rule_set.rules if rule.alert and rule.status != "experimental"]


def check(
    history: History,
    rules: Sequence[Rule],
    before: Sequence[StoredAlert],
    now_ns: int,
    ended: Mapping[str, int] | None = None,
) -> Checked:
    """What fires at `now_ns`, and what no longer does.

    Args:
        history: the stored outcomes.
        rules: the rules that may alert, as they are in force.
        before: what fired or was pending until now.
        now_ns: the end of every window, ns since 1970 UTC.
        ended: when alerts, by fingerprint, were last resolved: what came before does not count as a fall again.

    Returns:
        Every alert of `before`, as it is now, and those that begin. One whose rule, in this very form, is no longer in
        force is resolved; so is one of a release that another one has replaced.
    """
    current = {alert.fingerprint: alert for alert in before}
    checked = Checked()
    for rule in rules:
        for alert in rule.alert:
            _check_one(_Look(history, rule, alert, now_ns, current, ended or {}), checked)
    for orphan in current.values():
        _end(checked, orphan, resolved(orphan, now_ns, "the rule was changed or removed"))
    return checked


def _check_one(look: "_Look", checked: Checked) -> None:
    """One alert of one rule at all its series; takes what it knows out of ``look.current``."""
    findings = dict(look.findings())
    tested = {key: found.p_value for key, found in findings.items() if found.p_value is not None}
    error = 1 / look.alert.drop.false_alarm_every if look.alert.drop is not None else 1 - look.alert.confidence
    standing_out = discoveries(tested, error)
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
    """One alert of one rule, and the outcomes that it looks at."""

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
            # Whole hours, so that window and history meet where the sums by the hour do.
            self._since_ns -= self._since_ns % _HOUR_NS
        self._count_incomplete = rule.incomplete == "count"
        self._evaluation = WHOLE_RULE if alert.evaluation in SHARES else alert.evaluation
        self._bins = self._of_rule(self._since_ns, now_ns + 1)
        self._earlier: dict[SeriesKey, Outcomes] = {}
        against_s = alert.coverage.against if alert.coverage else alert.drop.against.history if alert.drop else None
        if against_s is not None:
            before_ns = self._since_ns - int(against_s * _NS)
            self._before_ns = before_ns - before_ns % _HOUR_NS
            self._earlier = _by_any_release(self._of_rule(self._before_ns, self._since_ns))
        if alert.coverage is not None:
            # Releases are one here, and one agent that no longer sends any result is a series too.
            self._now = _by_any_release(self._bins)
            self._bins = {key: [] for key in {**self._earlier, **self._now}}
        keys = {Condition(rule, alert, key).fingerprint: key for key in self._bins}
        for stored in current.values():
            if (stored.rule_id, stored.rule_hash) == (rule.id, rule.hash):
                place = (stored.tenant, rule.id, rule.hash, self._evaluation, stored.service, stored.agent)
                series = SeriesKey(*place, stored.release)
                if Condition(rule, alert, series).fingerprint == stored.fingerprint:
                    keys[stored.fingerprint] = series
        self.fingerprints = {key: fingerprint for fingerprint, key in keys.items()}

    def findings(self) -> Iterator[tuple[SeriesKey, Finding]]:
        """What each series shows, as far as it shows anything."""
        for key in self._bins:
            if (found := self._finding(key)) is not None:
                yield key, found

    def successor(self, key: SeriesKey) -> str | None:
        """The release that sends results in place of `key`'s, if that is why there are none."""
        for other, bins in self._bins.items():
            if (
                _any_release(other) == _any_release(key)
                and other != key
                and total(bins).results >= self.alert.min_samples
            ):
                return other.release or "without a name"
        return None

    def _finding(self, key: SeriesKey) -> Finding | None:
        alert, bins = self.alert, self._bins[key]
        if alert.below is not None:
            return look_below(self.rule, alert, alert.below, total(bins))
        if alert.above is not None:
            return look_above(alert, alert.above, total(bins))
        if alert.drop is not None:
            if (ended_ns := self._ended.get(self.fingerprints[key])) is not None:
                bins = [item for item in bins if item.minute * MINUTE_NS >= ended_ns]
            before = self._earlier.get(_any_release(key), _NOTHING)
            return look_drop(self.rule, alert, alert.drop, bins, before, self._fallen(key))
        assert alert.coverage is not None
        now, before = self._now.get(key, _NOTHING), self._earlier.get(key, _NOTHING)
        traces = self._traces(key, self._since_ns, self.now_ns + 1), self._traces(key, self._before_ns, self._since_ns)
        return look_coverage(alert, alert.coverage, now, before, *traces)

    def _fallen(self, key: SeriesKey) -> Fallen | None:
        stored = self.current.get(self.fingerprints[key])
        if stored is None or stored.state != "firing" or stored.facts.was is None:
            return None
        return Fallen(stored.facts.was, stored.facts.was_samples, stored.bound, stored.starts_ns // MINUTE_NS)

    def _of_rule(self, since_ns: int, until_ns: int) -> dict[SeriesKey, list[Bin]]:
        wanted = (self.rule.hash, self._evaluation)
        found = self._history.window(self.rule.id, since_ns, until_ns, self._count_incomplete)
        return {key: bins for key, bins in found.items() if key[2:4] == wanted}

    def _traces(self, key: SeriesKey, since_ns: int, until_ns: int) -> int:
        """How many traces the service sent, whatever judges them."""
        service = SeriesKey(key.tenant, EVERY_TRACE, "", "", key.service, "", None)
        return total(
            self._history.window(EVERY_TRACE, since_ns, until_ns, self._count_incomplete).get(service, ())
        ).passed


def _any_release(key: SeriesKey) -> SeriesKey:
    return key._replace(release=None)


def _by_any_release(windows: Mapping[SeriesKey, Sequence[Bin]]) -> dict[SeriesKey, Outcomes]:
    """What all releases together sent: a new one is compared with those before it."""
    found: dict[SeriesKey, Outcomes] = {}
    for key, bins in windows.items():
        found[_any_release(key)] = found.get(_any_release(key), _NOTHING) + total(bins)
    return found
