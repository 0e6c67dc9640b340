"""The error budgets of objectives from the store: what is left now, and how it came to that."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection

from tracegrade.alert.check import alerting_rules, slo_statuses
from tracegrade.alert.read import window_of
from tracegrade.alert.slo import SloPlace, SloStatus
from tracegrade.alert.stored_history import StoredHistory
from tracegrade.model.tally import Tally
from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.history import SeriesHistory
from tracegrade.store.schema import MINUTE_NS

_HOUR = 60
_STEPS = 60


def with_objectives(rule_set: RuleSet) -> list[Rule]:
    """The rules that may alert and have an objective."""
    return [rule for rule in alerting_rules(rule_set) if any(alert.slo for alert in rule.alert)]


def stored_slos(connection: Connection, rules: Sequence[Rule], now_ns: int) -> list[SloStatus]:
    """The error budgets of `rules` at `now_ns`, those of which least is left first, unknown ones last.

    Each release of an agent costs some hundred rows of counts.
    """
    if not rules:
        return []
    found = slo_statuses(StoredHistory(connection, rules, now_ns), rules, now_ns)
    return sorted(found, key=_order)


def courses(connection: Connection, rule: Rule, alert: Alert, now_ns: int) -> dict[SloPlace, list[float]]:
    """What was left of each budget of one objective after each step of its window, of 60 steps or fewer.

    It begins with 1, a whole budget, and ends with what is left. A budget is that of all results of the window, also
    for the steps before they came.
    """
    assert alert.slo is not None
    minutes = int(alert.slo.window) // 60
    step = -(-minutes // _STEPS // _HOUR) * _HOUR or _HOUR
    last = now_ns // MINUTE_NS // step
    first = last - minutes // step
    window = window_of(rule, alert, first * step * MINUTE_NS, now_ns)
    by_place: defaultdict[SloPlace, defaultdict[int, list[Tally]]] = defaultdict(lambda: defaultdict(list))
    for key, steps in SeriesHistory(connection, {rule.hash}).steps(window, step).items():
        place = by_place[key.tenant, rule.id, alert.of, key.service, key.agent]
        for number, tally in steps.items():
            place[number].append(tally)
    found = {}
    for where, by_step in by_place.items():
        fails = [sum(item.all_failed for item in by_step.get(number, ())) for number in range(first, last + 1)]
        judged = sum(item.all_judged for some in by_step.values() for item in some)
        found[where] = _left(fails, judged * (1 - alert.slo.objective))
    return found


def _left(fails: Sequence[float], allowed: float) -> list[float]:
    left = [1.0]
    for failed in fails:
        left.append(left[-1] - (failed / allowed if allowed else 0.0))
    return left


def _order(status: SloStatus) -> tuple[object, ...]:
    left = status.budget.left
    return left is None, left or 0.0, status.place
