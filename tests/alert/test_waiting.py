"""Alerts that cannot tell yet whether anything is wrong."""

from build.judged_traces import MINUTE_NS, START_NS
from build.loop_stage import Stage, rules
from tracegrade.alert.wording import waiting_text
from tracegrade.store.alerts import WaitingAlert, stored_waiting
from tracegrade.store.open import reading

DAY = 24 * 60


def waiting(stage: Stage) -> list[WaitingAlert]:
    with reading(stage.engine) as connection:
        return stored_waiting(connection)


def test_a_fall_without_a_history_has_no_baseline_yet_until_it_has(detecting: Stage) -> None:
    stage = detecting
    stage.rule_set = rules({"drop": {"against": "7d"}})
    stage.receive(0, *["pass"] * 40)
    stage.step(1)
    (one,) = waiting(stage)
    assert (one.rule_id, one.service, one.agent) == ("checkout-order", "shop", "support")
    assert (waiting_text(one.reason), one.since_ns) == ("no baseline yet", START_NS + MINUTE_NS)
    stage.receive(DAY, *["pass"] * 40)
    stage.step(DAY + 1)
    assert waiting(stage) == [one], "since the first"
    for hour in range(60):
        stage.receive(DAY + 60 * hour, *["pass"] * 3)
    stage.step(4 * DAY)
    assert waiting(stage) == []


def test_too_few_results_are_said(detecting: Stage) -> None:
    stage = detecting
    stage.rule_set = rules({"below": 0.9})
    stage.receive(0, "pass")
    stage.step(1)
    assert [waiting_text(one.reason) for one in waiting(stage)] == ["too few results yet"]
    stage.receive(1, *["pass"] * 30)
    stage.step(2)
    assert waiting(stage) == []


def test_what_no_rule_watches_any_more_waits_no_more(detecting: Stage) -> None:
    stage = detecting
    stage.rule_set = rules({"below": 0.9})
    stage.receive(0, "pass")
    stage.step(1)
    stage.rule_set = rules({"above": 0.9, "of": "error"}, status="experimental")
    stage.step(2)
    assert waiting(stage) == []


def test_what_fires_does_not_wait_for_results(detecting: Stage) -> None:
    stage = detecting
    stage.rule_set = rules({"below": 0.9})
    for hour in range(5):
        stage.receive(60 * hour, *["fail"] * 20)
    assert stage.step(300) == [("checkout-order", "shop", "firing")]
    stage.step(301)
    assert waiting(stage) == []
