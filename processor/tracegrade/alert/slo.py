"""The error budgets of objectives at present: for the API, the page and the command line, and as metrics."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tracegrade.alert.detect.burn import Budget, Burn, pairs_of
from tracegrade.document.duration import duration_text
from tracegrade.rule.alert import Alert
from tracegrade.rule.alert_forms import Slo
from tracegrade.rule.rule import Rule
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import SeriesKey
from tracegrade.telemetry.metrics import METRICS, Labels, Telemetry, series
from tracegrade.telemetry.series_bound import OTHER

SloPlace: TypeAlias = tuple[str, str, str, str, str]
"""Tenant, rule id, what is watched, service, agent."""


@dataclass(frozen=True, slots=True)
class SloStatus:
    """The error budget of one objective at one agent of one service of a tenant, over all releases."""

    slo: Slo
    place: SloPlace
    level: str
    budget: Budget

    def to_json(self, firing: Collection[SloPlace] = ()) -> dict[str, Any]:
        """The documented JSON object; `firing`: where an objective's alert fires."""
        tenant, rule_id, of, service, agent = self.place
        return {
            "tenant": tenant,
            "rule": rule_id,
            "of": of,
            "objective": self.slo.objective,
            "window_s": self.slo.window,
            "service": service,
            "agent": agent,
            "level": self.level,
            "firing": self.place in firing,
            "judged": self.budget.judged,
            "budget_left": self.budget.left,
            "spent_in_s": self.budget.spent_in_s,
            "pairs": [
                {
                    "part": pair.part,
                    "limit": pair.times,
                    "long": _burn(self.budget.burn(pair.long)),
                    "short": _burn(self.budget.burn(pair.short)),
                }
                for pair in pairs_of(self.slo)
            ],
        }


def status(rule: Rule, alert: Alert, series: SeriesKey, budget: Budget) -> SloStatus:
    """The status of an `alert` that has an objective, at one series of its rule."""
    assert alert.slo is not None
    place = series.tenant, rule.id, alert.of, series.service, series.agent
    return SloStatus(alert.slo, place, rule.level, budget)


def firing_places(alerts: Collection[StoredAlert]) -> set[SloPlace]:
    """Where the alerts of objectives among `alerts` fire."""
    return {
        (alert.tenant, alert.rule_id, alert.of, alert.service, alert.agent)
        for alert in alerts
        if alert.kind == "slo" and alert.state == "firing"
    }


def _burn(burn: Burn) -> dict[str, Any]:
    return {"over_s": burn.minutes * 60, "rate": burn.rate, "judged": burn.judged}


_LEFT = "tracegrade.slo.budget_left"
_RATE = "tracegrade.slo.burn_rate"


def publish(telemetry: Telemetry, statuses: Iterable[SloStatus]) -> None:
    """Set what is left of each budget and its burn rates; what is not among `statuses` goes.

    Of those that count as one tenant, the worse one is shown. What there is no room for is left out, since the sum of
    budgets says nothing.
    """
    found: dict[str, dict[Labels, float]] = {_LEFT: {}, _RATE: {}}
    for status in statuses:
        tenant, rule, of, service, agent = status.place
        window = duration_text(status.slo.window)
        exact = (telemetry.tenant(tenant), rule, of, f"{status.slo.objective:.6g}", service, agent, window)
        lines = METRICS[_LEFT].lines + len(status.budget.burns) * METRICS[_RATE].lines
        if telemetry.fit(_LEFT, lines, exact, (OTHER,) * len(exact)) != exact:
            continue
        labels = dict(zip(METRICS[_LEFT].labels, exact, strict=True))
        _keep(found[_LEFT], series(_LEFT, **labels), status.budget.left, min)
        for burn in status.budget.burns:
            labels["window"] = duration_text(burn.minutes * 60)
            _keep(found[_RATE], series(_RATE, **labels), burn.rate, max)
    telemetry.replace(found)


def _keep(found: dict[Labels, float], key: Labels, value: float | None, worse: Callable[..., float]) -> None:
    if value is not None:
        found[key] = worse(value, found.get(key, value))
