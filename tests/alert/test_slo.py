"""Error budgets as metrics, published by the loop."""

from typing import Any

import pytest

from build.loop_stage import Stage, rules
from tracegrade.alert.detect.burn import Budget, Burn
from tracegrade.alert.slo import SloStatus, publish
from tracegrade.rule.alert_forms import Slo
from tracegrade.rule.rule_set import RuleSet
from tracegrade.telemetry.metrics import Telemetry

LEFT, RATE = "tracegrade.slo.budget_left", "tracegrade.slo.burn_rate"


def values(telemetry: Telemetry, name: str, label: str) -> dict[str, float]:
    found: list[dict[str, Any]] = telemetry.snapshot()["metrics"].get(name, [])
    return {item["labels"][label]: item["value"] for item in found}


def status(agent: str, left: float | None, tenant: str = "default") -> SloStatus:
    slo = Slo.model_validate({"objective": 0.99})
    burns = (Burn(5, None, 0), Burn(60, None if left is None else 1 - left, 10))
    return SloStatus(slo, (tenant, "one", "pass_rate", "shop", agent), "high", Budget(left, 10, burns, None))


def test_the_loop_publishes_what_is_left_and_how_fast_it_is_spent(detecting: Stage) -> None:
    detecting.rule_set = rules({"slo": {"objective": 0.9}, "min_samples": 2})
    detecting.receive(0, *["pass"] * 90, *["fail"] * 5)
    detecting.step(1)
    (left,) = detecting.telemetry.snapshot()["metrics"][LEFT]
    assert left["labels"] == {
        "tenant": "default",
        "rule": "checkout-order",
        "of": "pass_rate",
        "objective": "0.9",
        "service": "shop",
        "agent": "support",
        "window": "30d",
    }
    assert left["value"] == pytest.approx(1 - 5 / 9.5)
    rates = values(detecting.telemetry, RATE, "window")
    assert rates == {window: pytest.approx(5 / 9.5) for window in ("5m", "30m", "1h", "6h", "3d")}
    detecting.step(20)
    assert values(detecting.telemetry, RATE, "window").keys() == {"30m", "1h", "6h", "3d"}, "none within 5 minutes"


def test_budgets_of_rules_that_are_gone_are_published_no_more(detecting: Stage) -> None:
    detecting.rule_set = rules({"slo": {"objective": 0.9}})
    detecting.receive(0, "pass")
    detecting.step(1)
    assert values(detecting.telemetry, LEFT, "agent") == {"support": 1}
    detecting.rule_set = RuleSet([])
    detecting.step(2)
    assert values(detecting.telemetry, LEFT, "agent") == values(detecting.telemetry, RATE, "window") == {}


def test_budgets_that_there_is_no_room_for_are_left_out_and_never_added_up() -> None:
    """3 series for each agent; a fifth of 20 is for names that are less exact."""
    telemetry = Telemetry("judge", max_series=20)
    publish(telemetry, [status(f"agent-{number}", 0.5) for number in range(30)])
    found = values(telemetry, LEFT, "agent")
    assert found == {f"agent-{number}": 0.5 for number in range(len(found))}
    assert 0 < len(found) <= 20 // 3
    assert telemetry.conditions.holds("too_many_series")


def test_two_tenants_with_the_same_names_have_budgets_of_their_own() -> None:
    telemetry = Telemetry("judge")
    publish(telemetry, [status("a", 0.9), status("a", -0.5, "other"), status("b", None)])
    assert values(telemetry, LEFT, "tenant") == {"default": 0.9, "other": -0.5}
    assert values(telemetry, RATE, "tenant") == {"default": pytest.approx(0.1), "other": 1.5}


def test_of_tenants_that_count_as_one_the_worse_budget_is_shown() -> None:
    telemetry = Telemetry("judge", max_tenants=0)
    publish(telemetry, [status("a", 0.9), status("a", -0.5, "other")])
    assert values(telemetry, LEFT, "tenant") == {"other": -0.5}
    assert values(telemetry, RATE, "tenant") == {"other": 1.5}
