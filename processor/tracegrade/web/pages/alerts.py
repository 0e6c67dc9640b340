"""``/alerts``: incidents that fire or fired, alerts that cannot tell yet, error budgets, and silences."""

import time

from starlette.requests import Request
from starlette.responses import Response

from tracegrade.alert.stored_slos import with_objectives
from tracegrade.alert.wording import waiting_text
from tracegrade.store.alerts import WaitingAlert, stored_silences, stored_waiting
from tracegrade.store.incidents import recent_incidents
from tracegrade.web.budgets import shown_budgets
from tracegrade.web.incidents import shown_incidents
from tracegrade.web.masked import seen_by
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of
from tracegrade.web.view import FILTERS, filter_choices, view_of

_AT_MOST = 100
_BUDGETS = 10
_WAITING = 20
_STATES = ("firing", "resolved")


def show(request: Request) -> Response:
    """Incidents that fire, or were resolved within the range shown, and what cannot be told yet."""
    sources, view, now_ns = sources_of(request), view_of(request, FILTERS), time.time_ns()
    with sources.store() as connection:
        found = recent_incidents(connection, view.window.since_ns, result_filter=view.result_filter)
        silences = seen_by(token_of(request), stored_silences(connection, now_ns))
        waiting = [one for one in stored_waiting(connection) if _is_chosen(one, view.chosen)]
        rules = [rule for rule in with_objectives(sources.rule_set()) if view.chosen.get("rule") in (None, rule.id)]
        budgets = shown_budgets(connection, rules, view.chosen, _BUDGETS)
        choices = filter_choices(connection, sources.rule_set())
    by_state = {state: [incident for incident in found if incident.state == state] for state in _STATES}
    groups = [
        (state, len(some), shown_incidents(some[:_AT_MOST], silences, now_ns)) for state, some in by_state.items()
    ]
    return page(
        request,
        "alerts.html",
        title="Alerts",
        view=view,
        choices=choices,
        groups=groups,
        waiting=waiting[:_WAITING],
        waiting_text=waiting_text,
        more_waiting=waiting[_WAITING:],
        budgets=budgets,
        silences=silences,
        may_silence=token_of(request).may("admin"),
    )


def _is_chosen(one: WaitingAlert, chosen: dict[str, str]) -> bool:
    """Whether the page's filters leave it; it is of no release."""
    own = {"rule": one.rule_id, "service": one.service, "agent": one.agent, "tenant": one.tenant}
    return all(chosen.get(name, value) == value for name, value in own.items())
