"""``/``: how often each rule passes, where it fails, and what fails now."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.model.tally import NO_RESULTS, Tally, total
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert, recent_alerts, stored_silences
from tracegrade.store.heads import count_heads
from tracegrade.store.incidents import recent_incidents
from tracegrade.store.rule_texts import judgements
from tracegrade.store.tallies import begins_ns, tallies
from tracegrade.web.charts.trends import trend, volume
from tracegrade.web.failures import failures
from tracegrade.web.incidents import shown_incidents
from tracegrade.web.places import places
from tracegrade.web.render import page
from tracegrade.web.rights import token_of
from tracegrade.web.sources import sources_of
from tracegrade.web.view import FILTERS, View, Window, filter_choices, view_of

_FAILURES = 10
_INCIDENTS = 10
_MOST_COUNTED = 5000


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule as the overview shows it; ``rule`` is None for a rule that is no longer in force."""

    id: str
    rule: Rule | None
    tally: Tally
    interval: tuple[float, float] | None
    trend: Markup
    changed_ns: int
    alerts: int

    @property
    def order(self) -> tuple[object, ...]:
        """The order of rows: those that need attention first, rules without results last."""
        rate = self.tally.pass_rate
        return (-self.alerts, self.tally.results == 0, 1.0 if rate is None else rate, self.id)

    @property
    def is_fine(self) -> bool:
        """Whether nothing of it needs attention: no alert fires, and all its results, if there are any, pass."""
        return not self.alerts and self.tally.passed == self.tally.results


def show(request: Request) -> Response:
    """The overview of the range and filters in the address."""
    sources, view = sources_of(request), view_of(request, FILTERS)
    rule_set = sources.rule_set()
    counting = [rule.id for rule in rule_set.rules if rule.incomplete == "count"]
    of_sessions = _is_of_sessions(rule_set, view)
    with sources.store() as connection:
        charted = view.window.charted(begins_ns(connection, view.result_filter), time.time_ns())
        found = tallies(
            connection,
            view.result_filter,
            ["rule_id", "service", "agent", "release"],
            step_minutes=charted.step_minutes,
            incomplete=counting,
            one_form=True,
        )
        arrived = tallies(
            connection,
            view.result_filter,
            of="traces",
            step_minutes=charted.step_minutes,
            incomplete="count",
            summed=["passed"],
        )
        # Arriving traces are counted only by service and tenant; for the other filters, a trace's results are needed.
        chosen = None
        if view.result_filter.asks_for_results:
            chosen = count_heads(connection, view.result_filter, _MOST_COUNTED + 1, sessions=of_sessions)
        alerts = recent_alerts(connection, view.window.until_ns, result_filter=view.result_filter, firing=True)
        incidents = recent_incidents(connection, view.window.until_ns, result_filter=view.result_filter, firing=True)
        silences = stored_silences(connection, time.time_ns())
        changes = {rule_id: since_ns for rule_id, (_, since_ns) in judgements(connection).items()}
        failed, *not_judged = (
            failures(connection, view.result_filter, _FAILURES, token_of(request), outcome)
            for outcome in ("fail", "not_evaluable", "error")
        )
        choices = filter_choices(connection, rule_set)
    came = {number: tally.passed for (number,), tally in arrived.items()}
    by_rule: dict[str, dict[int, Tally]] = {}
    by_place: dict[tuple[str, ...], Tally] = {}
    for (rule_id, *place, number), tally in found.items():
        of_rule = by_rule.setdefault(rule_id, {})
        of_rule[number] = of_rule.get(number, NO_RESULTS).plus(tally)
        by_place[tuple(place)] = by_place.get(tuple(place), NO_RESULTS).plus(tally)
    rows = sorted(_rows(rule_set, by_rule, view, charted, alerts, changes), key=lambda row: row.order)
    if chosen is None:
        counts = [came.get(number, 0) for number in charted.steps]
        said = f"{sum(counts)} traces in {view.window.text}"
    else:
        judged = [[steps.get(number, NO_RESULTS) for steps in by_rule.values()] for number in charted.steps]
        counts = [sum(tally.subjects for tally in of_step) for of_step in judged]
        said = f"{sum(counts)} results in {view.window.text}"
    return page(
        request,
        "overview.html",
        title="Overview",
        view=view,
        choices=choices,
        rows=[row for row in rows if not row.is_fine],
        fine=[row for row in rows if row.is_fine],
        without=sum(row.tally.results == 0 for row in rows),
        places=places(by_place),
        kind="Sessions" if of_sessions else "Traces",
        traces=sum(came.values()) if chosen is None else min(chosen, _MOST_COUNTED),
        more=chosen is not None and chosen > _MOST_COUNTED,
        volume=volume(counts, said),
        begins_ns=charted.since_ns if charted != view.window else None,
        total=total(row.tally for row in rows),
        alerting=len({alert.rule_id for alert in alerts}),
        incidents=shown_incidents(incidents[:_INCIDENTS], silences, time.time_ns()),
        incident_count=len(incidents),
        failures=failed,
        not_judged=[item for of_outcome in not_judged for item in of_outcome],
    )


def _is_of_sessions(rule_set: RuleSet, view: View) -> bool:
    """Whether the chosen rule, if any, judges sessions."""
    rule = rule_set.rule(view.chosen.get("rule", ""))
    return rule is not None and rule.scope == "session"


def _rows(
    rule_set: RuleSet,
    by_rule: dict[str, dict[int, Tally]],
    view: View,
    charted: Window,
    alerts: list[StoredAlert],
    changes: dict[str, int],
) -> Iterator[RuleRow]:
    in_force = {rule.id: rule for rule in rule_set.rules}
    only = view.chosen.get("rule")
    for rule_id in {**in_force, **by_rule}:
        if only is not None and rule_id != only:
            continue
        steps = by_rule.get(rule_id, {})
        tally = total(steps.values())
        yield RuleRow(
            rule_id,
            in_force.get(rule_id),
            tally,
            tally.interval,
            trend(steps, charted),
            changes.get(rule_id, 0),
            sum(alert.rule_id == rule_id for alert in alerts),
        )
