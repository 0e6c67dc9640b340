"""A preview of a rule's alerts: when would they have fired over the stored results?"""

from collections.abc import Callable, Sequence

from tracegrade.alert.check import History, check
from tracegrade.rule.rule import Rule
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Window


def without_results(history: History, rules: Sequence[Rule], since_ns: int, until_ns: int) -> list[Rule]:
    """The rules without stored results for their alerts: their preview says nothing."""
    return [
        rule
        for rule in rules
        if not any(
            history.sums(rule.id, Window(alert.evaluation, since_ns, until_ns, rule.incomplete == "count"))
            for alert in rule.alert
        )
    ]


def preview(
    history: History,
    rules: Sequence[Rule],
    since_ns: int,
    until_ns: int,
    every_ns: int,
    advance: Callable[[int], None] = lambda looks: None,
) -> list[StoredAlert]:
    """Every firing that checks from `since_ns` to `until_ns`, every `every_ns`, would have found, earliest first.

    Alerts that would still fire at the end are firing, the others resolved. Experimental rules are also previewed, to
    show what they would do. `advance` is called after each check.
    """
    current: list[StoredAlert] = []
    found: list[StoredAlert] = []
    ended: dict[str, int] = {}
    for now_ns in range(since_ns + every_ns, until_ns + 1, every_ns):
        checked = check(history, rules, current, now_ns, ended)
        current = checked.open
        found += checked.resolved
        ended |= {alert.fingerprint: alert.ends_ns for alert in checked.resolved if alert.ends_ns is not None}
        advance(1)
    found += [alert for alert in current if alert.state == "firing"]
    return sorted(found, key=lambda alert: (alert.starts_ns, alert.fingerprint))
