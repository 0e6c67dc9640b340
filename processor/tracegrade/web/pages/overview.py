"""``/``: how often each rule passes, where it fails, and what fails now."""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from tracegrade.alert.message import summary
from tracegrade.match.rule import Rule
from tracegrade.match.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert, firing_alerts
from tracegrade.store.rule_texts import judgements
from tracegrade.store.trends import Sums, names_of, traffic, trends
from tracegrade.web.charts import interval, share_bar, trend, volume
from tracegrade.web.failures import failures
from tracegrade.web.render import page
from tracegrade.web.sources import sources_of
from tracegrade.web.view import View, view_of

_FAILURES = 10
_PLACES = 12


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule as the overview shows it; ``rule`` is None of one that is in force no more."""

    id: str
    rule: Rule | None
    sums: Sums
    interval: tuple[float, float] | None
    trend: Markup
    changed_ns: int
    alerts: int

    @property
    def order(self) -> tuple[object, ...]:
        """What needs attention first, rules without results last."""
        rate = self.sums.pass_rate
        return (-self.alerts, self.sums.results == 0, 1.0 if rate is None else rate, self.id)


@dataclass(frozen=True, slots=True)
class Place:
    """Outcomes of one agent of one release of a service."""

    service: str
    agent: str
    release: str
    sums: Sums
    bar: Markup


def show(request: Request) -> Response:
    """The overview of the range and filters in the address."""
    sources, view = sources_of(request), view_of(request)
    rule_set = sources.rule_set()
    counting = [rule.id for rule in rule_set.rules if rule.incomplete == "count"]
    with sources.store() as connection:
        found = trends(
            connection,
            view.filter,
            ["rule_id", "service", "agent", "release"],
            step_minutes=view.window.step_minutes,
            counting_incomplete=counting,
        )
        came = traffic(connection, view.filter, step_minutes=view.window.step_minutes)
        alerts = [alert for alert in firing_alerts(connection)[::-1] if _is_in(alert, view)]
        changes = {rule_id: since_ns for rule_id, (_, since_ns) in judgements(connection).items()}
        failed = failures(connection, view.filter, _FAILURES)
        choices = choices_of(connection, rule_set)
    by_rule: dict[str, dict[int, Sums]] = {}
    by_place: dict[tuple[str, ...], Sums] = {}
    for (rule_id, *place), steps in found.items():
        of_rule = by_rule.setdefault(rule_id, {})
        for number, sums in steps.items():
            of_rule[number] = of_rule.get(number, Sums()) + sums
        by_place[tuple(place)] = sum(steps.values(), by_place.get(tuple(place), Sums()))
    rows = sorted(_rows(rule_set, by_rule, view, alerts, changes), key=lambda row: row.order)
    counts = [came.get(number, 0) for number in view.window.steps]
    return page(
        request,
        "overview.html",
        title="Overview",
        view=view,
        choices=choices,
        rows=rows,
        without=sum(row.sums.results == 0 for row in rows),
        places=_places(by_place),
        traces=sum(counts),
        volume=volume(counts, f"{sum(counts)} traces in {view.window.text}"),
        total=sum((row.sums for row in rows), Sums()),
        alerts=[(alert, summary(alert)) for alert in alerts],
        failures=failed,
    )


def choices_of(connection: Connection, rule_set: RuleSet) -> dict[str, list[str]]:
    """What the filters offer."""
    rules = {rule.id for rule in rule_set.rules}.union(names_of(connection, "rule_id"))
    tenants = names_of(connection, "tenant")
    return {
        "rule": sorted(rules),
        "service": names_of(connection, "service"),
        "agent": names_of(connection, "agent"),
        "release": names_of(connection, "release"),
        **({"tenant": tenants} if len(tenants) > 1 else {}),
    }


def _is_in(alert: StoredAlert, view: View) -> bool:
    own = {"rule": alert.rule_id, "service": alert.service, "tenant": alert.tenant, "agent": alert.agent}
    return all(own.get(name, value) in (value, "") for name, value in view.chosen.items())


def _rows(
    rule_set: RuleSet,
    by_rule: dict[str, dict[int, Sums]],
    view: View,
    alerts: list[StoredAlert],
    changes: dict[str, int],
) -> Iterator[RuleRow]:
    in_force = {rule.id: rule for rule in rule_set.rules}
    only = view.chosen.get("rule")
    for rule_id in {**in_force, **by_rule}:
        if only is not None and rule_id != only:
            continue
        steps = by_rule.get(rule_id, {})
        sums = sum(steps.values(), Sums())
        yield RuleRow(
            rule_id,
            in_force.get(rule_id),
            sums,
            interval(sums),
            trend(steps, view.window),
            changes.get(rule_id, 0),
            sum(alert.rule_id == rule_id for alert in alerts),
        )


def _places(found: dict[tuple[str, ...], Sums]) -> list[Place]:
    """Where most fails are, the most first."""
    most = sorted(found.items(), key=lambda item: (-item[1].failed, -item[1].results))[:_PLACES]
    return [Place(service, agent, release, sums, share_bar(sums)) for (service, agent, release), sums in most]
