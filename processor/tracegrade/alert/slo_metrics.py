"""The error budgets of objectives as metrics."""

from collections.abc import Callable, Iterable

from tracegrade.alert.slo import SloStatus
from tracegrade.document.duration import duration_text
from tracegrade.telemetry.metrics import METRICS, Labels, Telemetry, series
from tracegrade.telemetry.series_bound import OTHER

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
