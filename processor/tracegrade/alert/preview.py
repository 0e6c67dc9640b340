"""A preview of a rule's alerts: when would they have fired over the stored results?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracegrade.alert.ahead import ahead
from tracegrade.alert.check import Before, check, looks_back_s
from tracegrade.alert.findings_cache import FindingsCache
from tracegrade.alert.outlook import NotFired
from tracegrade.alert.read import History, window_of
from tracegrade.alert.stored_history import Counted
from tracegrade.alert.wording import not_fired_text, time_to_fire_text
from tracegrade.rule.rule import Rule
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.schema import MINUTE_NS

_NS = 1_000_000_000


def without_results(history: History, rules: Sequence[Rule], since_ns: int, until_ns: int) -> list[Rule]:
    """The rules without stored results for their alerts: their preview says nothing."""
    return [
        rule
        for rule in rules
        if not any(history.bins(rule.id, window_of(rule, alert, since_ns, until_ns)) for alert in rule.alert)
    ]


@dataclass(slots=True)
class Preview:
    """What checks of the past found.

    ``fired``: every firing, earliest first; those that would still fire at the end are firing, the others resolved.
    ``quiet``: of each alert that never fired, in words, what was checked and why.
    """

    fired: list[StoredAlert]
    quiet: list[str]


def preview(
    history: History,
    rules: Sequence[Rule],
    since_ns: int,
    until_ns: int,
    every_ns: int,
    advance: Callable[[int], None] = lambda scans: None,
    *,
    counted: Counted | None = None,
) -> Preview:
    """What checks from `since_ns` to `until_ns`, every `every_ns`, would have found.

    Experimental rules are also previewed, to show what they would do. `advance` is called after each check. With
    `counted`, of which `history` was read, alerts that do not fire say how long they would still take.
    """
    current: list[StoredAlert] = []
    found: list[StoredAlert] = []
    best: dict[tuple[str, tuple[object, ...]], NotFired] = {}
    looks_back_ns = int(looks_back_s(rules) * _NS)
    kept = FindingsCache()
    for look_ns in range(since_ns + every_ns, until_ns + 1, every_ns):
        now_ns = look_ns - look_ns % MINUTE_NS  # what came later in this minute was not known
        earlier = [alert for alert in found if (alert.ends_ns or 0) >= now_ns - looks_back_ns]
        checked = check(history, rules, Before(current, earlier), now_ns, kept=kept)
        current = checked.open
        found += checked.resolved
        for item in checked.not_fired:
            key = item.rule_id, item.alert.identity
            if key not in best or _certainty(item) >= _certainty(best[key]):
                best[key] = item
        advance(1)
    fired = sorted([*found, *current], key=lambda alert: (alert.starts_ns, alert.fingerprint))
    which = {(alert.rule_id, alert.kind, alert.of, alert.over_s) for alert in fired}
    by_id = {rule.id: rule for rule in rules}

    def results(item: NotFired) -> int:
        window = window_of(by_id[item.rule_id], item.alert, since_ns, until_ns)
        return sum(part.tally.results for bins in history.bins(item.rule_id, window).values() for part in bins)

    def to_come(item: NotFired) -> str:
        if counted is None:
            return ""
        earlier = [alert for alert in found if (alert.ends_ns or 0) >= until_ns - looks_back_ns]
        expected = ahead(counted, by_id[item.rule_id], item.alert, until_ns, Before(current, earlier))
        said = "" if expected is None else time_to_fire_text(item.alert, expected)
        return f" {said}" if said else ""

    quiet = [
        f"{item.rule_id}: {item.alert.says}: did not fire. {not_fired_text(item, results(item))}{to_come(item)}"
        for item in best.values()
        if (item.rule_id, item.alert.kind, item.alert.of, item.alert.over) not in which
    ]
    return Preview(fired, quiet)


def _certainty(item: NotFired) -> tuple[bool, float]:
    """More evidence, in relation to what is needed, says more about why an alert did not fire."""
    return item.evidence is not None, (item.evidence or 0.0) / max(1, item.needed)
