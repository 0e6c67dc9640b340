"""``/alerts``: alerts that fire or fired, with their evidence; and silences."""

import time
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from tracegrade.alert.message import lines, summary
from tracegrade.alert.stored_slos import with_objectives
from tracegrade.store.alerts import StoredAlert, recent_alerts, stored_silences
from tracegrade.web.budgets import shown_budgets
from tracegrade.web.filter_choices import filter_choices
from tracegrade.web.render import page
from tracegrade.web.sources import sources_of
from tracegrade.web.view import FILTERS, view_of

_AT_MOST = 100
_BUDGETS = 10
_STATES = ("firing", "resolved")


@dataclass(frozen=True, slots=True)
class ShownAlert:
    """An alert in words; the lines that only name traces are links instead."""

    alert: StoredAlert
    summary: str
    lines: list[str]
    traces: list[str]


def shown_alert(alert: StoredAlert) -> ShownAlert:
    """`alert` as the page shows it."""
    traces = [trace_id for trace_id in alert.facts.worst if len(trace_id) == 32]
    shown = [line for line in lines(alert) if not (traces and line.startswith("Traces to look at"))]
    return ShownAlert(alert, summary(alert), shown, traces)


def show(request: Request) -> Response:
    """Alerts that fire, or were resolved within the range shown."""
    sources, view = sources_of(request), view_of(request, FILTERS)
    with sources.store() as connection:
        found = recent_alerts(connection, view.window.since_ns, result_filter=view.result_filter)
        silences = stored_silences(connection, time.time_ns())
        rules = [rule for rule in with_objectives(sources.rule_set()) if view.chosen.get("rule") in (None, rule.id)]
        budgets = shown_budgets(connection, rules, view.chosen, _BUDGETS)
        choices = filter_choices(connection, sources.rule_set())
    by_state = {state: [alert for alert in found if alert.state == state] for state in _STATES}
    groups = [(state, len(some), [shown_alert(alert) for alert in some[:_AT_MOST]]) for state, some in by_state.items()]
    return page(
        request,
        "alerts.html",
        title="Alerts",
        view=view,
        choices=choices,
        groups=groups,
        budgets=budgets,
        silences=silences,
    )
