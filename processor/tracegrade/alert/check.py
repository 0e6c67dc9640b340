"""One look at every rule with alerts: what fires, what is resolved."""

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection

from tracegrade.alert.below import is_below
from tracegrade.alert.states import fingerprint, next_state, resolved
from tracegrade.match.rule import PASS_RATE, BelowAlert, Rule
from tracegrade.match.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.rates import Rate, rates
from tracegrade.store.read import Filter
from tracegrade.store.schema import WHOLE_RULE

_Window = tuple[float, bool]  # seconds, whether incomplete traces count
_NS = 1_000_000_000


def alerting_rules(rule_set: RuleSet) -> list[Rule]:
    """The rules that may alert: those with alerts, but experimental ones."""
    return [rule for rule in rule_set.rules if rule.alert and rule.status != "experimental"]


def check(
    connection: Connection, rule_set: RuleSet, firing: list[StoredAlert], now_ns: int
) -> tuple[list[StoredAlert], list[StoredAlert]]:
    """What fires at `now_ns`, and what no longer does.

    Args:
        connection: on the store, for reading.
        rule_set: the rules in force.
        firing: what fired until now.
        now_ns: the end of every window, ns since 1970 UTC.

    Returns:
        The alerts that fire, and those that are resolved now. An alert whose rule is no longer in force is resolved.
    """
    current = {alert.fingerprint: alert for alert in firing}
    after: list[StoredAlert | None] = []
    for (over_s, count_incomplete), pairs in _by_window(rule_set).items():
        since = Filter(since_ns=now_ns - int(over_s * _NS))
        seen: dict[tuple[str, str], list[Rate]] = defaultdict(list)
        for rate in rates(connection, since, evaluation=None, count_incomplete=count_incomplete):
            seen[rate.rule_id, rate.evaluation].append(rate)
        for rule, alert in pairs:
            for rate in seen[rule.id, WHOLE_RULE if alert.of == PASS_RATE else alert.of]:
                before = current.pop(fingerprint(rule, alert, rate.tenant, rate.service), None)
                after.append(next_state(before, is_below(alert, rate), rule, alert, rate, now_ns))
    silent = _known_fingerprints(rule_set, current.values())
    after += [alert if alert.fingerprint in silent else resolved(alert, now_ns) for alert in current.values()]
    changed = [alert for alert in after if alert is not None]
    return [a for a in changed if a.state == "firing"], [a for a in changed if a.state == "resolved"]


def _by_window(rule_set: RuleSet) -> dict[_Window, list[tuple[Rule, BelowAlert]]]:
    """Alerts by window: one query serves all that share it."""
    windows: dict[_Window, list[tuple[Rule, BelowAlert]]] = defaultdict(list)
    for rule in alerting_rules(rule_set):
        for alert in rule.alert:
            windows[alert.over, rule.incomplete == "count"].append((rule, alert))
    return windows


def _known_fingerprints(rule_set: RuleSet, silent: Iterable[StoredAlert]) -> set[str]:
    """The fingerprints that alerts in force have at the services of `silent`."""
    places = {(alert.tenant, alert.service) for alert in silent}
    return {
        fingerprint(rule, alert, *place)
        for rule in alerting_rules(rule_set)
        for alert in rule.alert
        for place in places
    }
