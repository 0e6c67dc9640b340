"""``tracegrade alerts slo`` over a store."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from build import store_with
from build.commands import run, run_json
from build.judged_traces import MINUTE_NS, judged
from build.stored_alerts import ALERT, store_incident
from tracegrade.rule.load import load_rules
from tracegrade.store.open import open_store

RULE = """
id: checkout-order
evaluate: [{evaluator: tool-call-order, tool_calls_order: [a, b]}]
alert:
  - {slo: {objective: 0.9}}
  - {slo: {objective: 0.5, window: 7d}, of: tool-call-order}
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Of 100 results, two a minute up to now, every tenth failed; at another agent of none."""
    (tmp_path / "rule.yaml").write_text(RULE)
    (rule,) = load_rules([tmp_path / "rule.yaml"]).rules
    now_ns = time.time_ns()
    traces = []
    for number in range(100):
        received_ns = now_ns - (number // 2 + 2) * MINUTE_NS
        trace = judged(
            number, "pass" if number % 10 else "fail", first_received_ns=received_ns, last_received_ns=received_ns
        )
        for decision in trace.decisions:
            decision.pair.rule_hash = rule.hash
        traces.append(trace)
    store_with(tmp_path, *traces)
    return tmp_path


def test_what_is_left_and_how_fast_it_is_spent_is_shown(data_dir: Path) -> None:
    rule = str(data_dir / "rule.yaml")
    strict, lax = run_json(data_dir, "alerts", "slo", rule)
    assert (strict["rule"], strict["of"], strict["service"], strict["agent"]) == (
        "checkout-order",
        "pass_rate",
        "shop",
        "support",
    )
    assert (strict["objective"], strict["window_s"], strict["judged"], strict["firing"]) == (0.9, 2_592_000, 100, False)
    assert strict["budget_left"] == pytest.approx(0)
    assert [pair["limit"] for pair in strict["pairs"]] == pytest.approx([14.4, 6, 1])
    assert [pair["long"]["over_s"] for pair in strict["pairs"]] == [3600, 21_600, 259_200]
    assert strict["pairs"][1]["long"] == {"over_s": 21_600, "rate": pytest.approx(1), "judged": 100}
    assert (lax["of"], lax["spent_in_s"]) == ("tool-call-order", None)
    assert lax["budget_left"] == pytest.approx(0.8)
    table = run(data_dir, "alerts", "slo", rule).stdout
    assert "checkout-order (tool-call-order)" in table
    assert "90% over 30d" in table
    assert "80.0%" in table
    assert "1h 1" in table


def test_it_says_where_an_alert_fires(data_dir: Path) -> None:
    engine = open_store(store_with(data_dir))
    with engine.begin() as connection:
        store_incident(
            connection, replace(ALERT, rule_id="checkout-order", kind="slo", service="shop", agent="support")
        )
    engine.dispose()
    found = run_json(data_dir, "alerts", "slo", str(data_dir / "rule.yaml"))
    assert [(item["of"], item["firing"]) for item in found] == [("pass_rate", True), ("tool-call-order", False)]
    assert run(data_dir, "alerts", "slo", str(data_dir / "rule.yaml")).stdout.count("! firing") == 1


def test_the_rules_of_the_settings_are_used_without_any_and_no_objective_is_said(data_dir: Path) -> None:
    (data_dir / "config.yaml").write_text(f"data_dir: {data_dir}\nrules: {{paths: [{data_dir / 'rule.yaml'}]}}\n")
    assert len(run_json(data_dir, "alerts", "slo", "-c", str(data_dir / "config.yaml"))) == 2
    assert run(data_dir, "alerts", "slo", "builtin:demo").stdout.startswith("No error budgets: ")
