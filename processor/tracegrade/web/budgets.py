"""Error budgets as the page shows them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from sqlalchemy import Connection

from tracegrade.alert.slo import SloStatus, firing_places
from tracegrade.alert.stored_slos import courses, stored_slos
from tracegrade.alert.wording import length_text
from tracegrade.document.duration import duration_text
from tracegrade.rule.rule import Rule
from tracegrade.rule.watched import PASS_RATE
from tracegrade.store.alerts import open_alerts
from tracegrade.web.charts.trends import burn_down


@dataclass(frozen=True, slots=True)
class ShownBudget:
    """One error budget; ``of`` is "" for the whole rule, ``burns`` are times with their burn rates, the longest last.

    ``lasts``: for how long, "" where it lasts at the present rate or nobody can tell.
    """

    tenant: str
    rule_id: str
    of: str
    service: str
    agent: str
    objective: str
    window: str
    left: float | None
    lasts: str
    burns: list[tuple[str, float | None]]
    is_firing: bool
    chart: Markup


@dataclass(frozen=True, slots=True)
class ShownBudgets:
    """The error budgets of which least is left, and how many there are beside them."""

    shown: list[ShownBudget]
    more: int


def shown_budgets(connection: Connection, rules: Sequence[Rule], chosen: dict[str, str], at_most: int) -> ShownBudgets:
    """The error budgets of `rules`, of which the page's filters leave some.

    Args:
        connection: on the store.
        rules: the rules with objectives.
        chosen: values of service, agent and tenant, for those that are filtered by.
        at_most: how many are shown.
    """
    now_ns = time.time_ns()
    found = [status for status in stored_slos(connection, rules, now_ns) if _is_chosen(status, chosen)]
    firing = firing_places(open_alerts(connection))
    shown = found[:at_most]
    wanted = {(status.place[1], status.place[2], status.slo) for status in shown}
    drawn = {
        (alert.slo, place): left
        for rule in rules
        for alert in rule.alert
        if alert.slo is not None and (rule.id, alert.of, alert.slo) in wanted
        for place, left in courses(connection, rule, alert, now_ns).items()
    }
    return ShownBudgets(
        [_shown_budget(status, status.place in firing, drawn.get((status.slo, status.place), [])) for status in shown],
        len(found) - len(shown),
    )


def _is_chosen(status: SloStatus, chosen: dict[str, str]) -> bool:
    tenant, _, _, service, agent = status.place
    own = {"tenant": tenant, "service": service, "agent": agent}
    return all(chosen.get(name, value) == value for name, value in own.items())


def _shown_budget(status: SloStatus, is_firing: bool, course: Sequence[float]) -> ShownBudget:
    tenant, rule_id, of, service, agent = status.place
    budget, window = status.budget, duration_text(status.slo.window)
    return ShownBudget(
        tenant=tenant,
        rule_id=rule_id,
        of="" if of == PASS_RATE else of,
        service=service,
        agent=agent,
        objective=f"{100 * status.slo.objective:.6g}",
        window=window,
        left=budget.left,
        lasts="" if budget.spent_in_s is None or (budget.left or 0) <= 0 else length_text(budget.spent_in_s),
        burns=[(length_text(burn.minutes * 60), burn.rate) for burn in budget.burns],
        is_firing=is_firing,
        chart=burn_down(course, budget.left, window) if budget.left is not None and course else Markup(""),
    )
