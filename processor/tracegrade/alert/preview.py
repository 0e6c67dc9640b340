"""A rule's alerts run over what is stored: when would people have been told?"""

from collections.abc import Callable, Sequence

from tracegrade.alert.check import History, check
from tracegrade.match.rule import Rule
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Window


def without_results(history: History, rules: Sequence[Rule], since_ns: int, until_ns: int) -> list[Rule]:
    """Those of `rules` none of whose alerts has anything to look at: that nothing would have fired says nothing."""
    return [
        rule
        for rule in rules
        if not any(
            history.sums(rule.id, Window(alert.series, since_ns, until_ns, rule.incomplete == "count"))
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
    """Every firing that looks from `since_ns` to `until_ns`, `every_ns` apart, would have found, the earliest first.

    What would still fire at the end is firing; the rest is resolved. Experimental rules are previewed too: that is how
    one finds out what they would do. `advance` is told of each look.
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
