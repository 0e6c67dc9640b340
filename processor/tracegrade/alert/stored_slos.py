"""The error budgets of all objectives in force, from the store."""

from collections.abc import Sequence

from sqlalchemy import Connection

from tracegrade.alert.check import alerting_rules, slo_statuses
from tracegrade.alert.slo import SloStatus
from tracegrade.alert.stored_history import StoredHistory
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet


def stored_slos(connection: Connection, rule_set: RuleSet, now_ns: int) -> list[SloStatus]:
    """The error budgets of `rule_set` at `now_ns`, those of which least is left first, unknown ones last.

    Each agent of each service costs some hundred rows of counts. Rules that never alert are left out.
    """
    rules = with_objectives(rule_set)
    if not rules:
        return []
    found = slo_statuses(StoredHistory(connection, rules, now_ns), rules, now_ns)
    return sorted(found, key=_order)


def with_objectives(rule_set: RuleSet) -> Sequence[Rule]:
    """The rules that may alert and have an objective."""
    return [rule for rule in alerting_rules(rule_set) if any(alert.slo for alert in rule.alert)]


def _order(status: SloStatus) -> tuple[object, ...]:
    left = status.budget.left
    return left is None, left or 0.0, status.place
