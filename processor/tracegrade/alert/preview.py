"""A preview of a rule's alerts: when would they have fired over the stored results?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracegrade.alert.ahead import ahead
from tracegrade.alert.check import Before, LookedAt, check, looks_back_s
from tracegrade.alert.kept import KeptFindings
from tracegrade.alert.read import History, window_of
from tracegrade.alert.stored_history import Counted
from tracegrade.alert.wording import by_chance
from tracegrade.display import count
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
    ``quiet``: of each alert that never fired, in words, what was looked at and why it did not.
    """

    fired: list[StoredAlert]
    quiet: list[str]


def preview(
    history: History,
    rules: Sequence[Rule],
    since_ns: int,
    until_ns: int,
    every_ns: int,
    advance: Callable[[int], None] = lambda looks: None,
    *,
    counted: Counted | None = None,
) -> Preview:
    """What checks from `since_ns` to `until_ns`, every `every_ns`, would have found.

    Experimental rules are also previewed, to show what they would do. `advance` is called after each check. With
    `counted`, of which `history` was read, alerts that do not fire say how long they would still take.
    """
    current: list[StoredAlert] = []
    found: list[StoredAlert] = []
    best: dict[tuple[str, tuple[object, ...]], LookedAt] = {}
    looks_back_ns = int(looks_back_s(rules) * _NS)
    kept = KeptFindings()
    for look_ns in range(since_ns + every_ns, until_ns + 1, every_ns):
        now_ns = look_ns - look_ns % MINUTE_NS  # what came later in this minute was not known
        earlier = [alert for alert in found if (alert.ends_ns or 0) >= now_ns - looks_back_ns]
        checked = check(history, rules, Before(current, earlier), now_ns, kept=kept)
        current = checked.open
        found += checked.resolved
        for looked in checked.looked_at:
            key = looked.rule_id, looked.alert.identity
            if key not in best or _certainty(looked) >= _certainty(best[key]):
                best[key] = looked
        advance(1)
    fired = sorted([*found, *current], key=lambda alert: (alert.starts_ns, alert.fingerprint))
    which = {(alert.rule_id, alert.kind, alert.of, alert.over_s) for alert in fired}
    by_id = {rule.id: rule for rule in rules}

    def results(looked: LookedAt) -> int:
        window = window_of(by_id[looked.rule_id], looked.alert, since_ns, until_ns)
        return sum(item.tally.results for bins in history.bins(looked.rule_id, window).values() for item in bins)

    def to_come(looked: LookedAt) -> str:
        if counted is None:
            return ""
        earlier = [alert for alert in found if (alert.ends_ns or 0) >= until_ns - looks_back_ns]
        expected = ahead(counted, by_id[looked.rule_id], looked.alert, until_ns, Before(current, earlier))
        said = "" if expected is None else expected.sentence(looked.alert)
        return f" {said}" if said else ""

    quiet = [
        f"{looked.rule_id}: {looked.alert.says}: did not fire. {_why(looked, results(looked))}{to_come(looked)}"
        for looked in best.values()
        if (looked.rule_id, looked.alert.kind, looked.alert.of, looked.alert.over) not in which
    ]
    return Preview(fired, quiet)


def _certainty(looked: LookedAt) -> tuple[bool, float]:
    """More evidence, in relation to what is needed, says more about why an alert did not fire."""
    return looked.evidence is not None, (looked.evidence or 0.0) / max(1, looked.needed)


def _why(looked: LookedAt, results: int) -> str:
    """Why an alert did not fire, from its check with the most evidence."""
    seen = f"{count(results, 'result')} checked"
    if looked.alert.is_of_values and not results:
        return f"{seen}: {looked.alert.of} is measured from the time on at which the rule in force has such an alert."
    if looked.alert.is_counted:
        return f"{seen}; the condition never held."
    if looked.too_late:
        named = ", ".join(f"release {key.release}" for key in looked.too_late if key.release) or "the release to blame"
        return f"{seen}; {named} had been replaced before it was certain that something was wrong."
    if looked.evidence is not None:
        # One of many series needs as much more: each could look bad by chance.
        weak = by_chance(looked.evidence / max(1, looked.needed), looked.alert.false_alarm_every)
        return f"{seen}: {weak}."
    if looked.too_few:
        return f"{seen}: too few; one agent needs {looked.alert.min_samples} (min_samples)."
    if looked.without_baseline:
        return f"{seen}; no baseline yet: fewer than {looked.alert.min_samples} results (min_samples) came before them."
    return f"{seen}; no check came after them: the current minute is not checked."
