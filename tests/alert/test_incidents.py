"""Which alerts are one incident, and what becomes of it."""

from dataclasses import replace
from typing import Any

import pytest

from build import each
from build.judged_traces import MINUTE_NS, START_NS
from build.loop_stage import Stage, rules
from build.stored_alerts import ALERT, incident
from tracegrade.alert.incidents import incidents_now
from tracegrade.alert.notify.message import headline
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import Silence, StoredAlert, save_silence
from tracegrade.store.incidents import accept, recent_incidents
from tracegrade.store.open import reading

HOUR_NS = 60 * MINUTE_NS


def together(one: StoredAlert, other: StoredAlert) -> bool:
    return True


def apart(one: StoredAlert, other: StoredAlert) -> bool:
    return False


def another(**changes: Any) -> StoredAlert:
    return replace(ALERT, **{"fingerprint": "cd" * 16, **changes})


LATER = ALERT.starts_ns + 5 * HOUR_NS
SOON = ALERT.starts_ns + HOUR_NS // 2


@each(
    ("alert", "failed_together", "members"),
    [
        pytest.param(another(kind="drop", starts_ns=LATER), apart, [2], id="one rule at one agent, whenever"),
        pytest.param(another(service="bank", starts_ns=SOON), apart, [2], id="one rule at several agents, soon after"),
        pytest.param(another(service="bank", starts_ns=LATER), apart, [1, 1], id="one rule at another agent, later"),
        pytest.param(another(rule_id="other", starts_ns=SOON), together, [2], id="another rule on the same traces"),
        pytest.param(another(rule_id="other", starts_ns=LATER), together, [1, 1], id="the same traces, but later"),
        pytest.param(another(rule_id="other", starts_ns=SOON), apart, [1, 1], id="another rule on other traces"),
        pytest.param(another(tenant="other"), together, [1, 1], id="another tenant"),
        pytest.param(another(kind="silent"), together, [1, 1], id="an agent that failed falls silent"),
        pytest.param(another(kind="coverage"), together, [1, 1], id="an agent that failed is judged no more"),
    ],
)
def test_an_alert_joins_the_incident_that_it_is_part_of(
    alert: StoredAlert, failed_together: Any, members: list[int]
) -> None:
    joins(ALERT, alert, failed_together, members)


@each(
    ("changes", "members"),
    [
        pytest.param({"kind": "below"}, [1, 1], id="what it sent was bad"),
        pytest.param({"kind": "coverage"}, [1, 1], id="its coverage was lost"),
        pytest.param({"starts_ns": LATER}, [2], id="silent for longer"),
        pytest.param({"rule_id": "other", "starts_ns": LATER}, [2], id="silent for another rule"),
        pytest.param({"service": "bank"}, [2], id="another agent falls silent in the same check"),
        pytest.param({"service": "bank", "starts_ns": SOON}, [1, 1], id="another agent falls silent later"),
        pytest.param({"service": "bank", "rule_id": "other"}, [1, 1], id="another agent, for another rule"),
        pytest.param({"tenant": "other"}, [1, 1], id="of another tenant"),
    ],
)
def test_silence_joins_what_says_the_same_alone(changes: dict[str, Any], members: list[int]) -> None:
    joins(replace(ALERT, kind="silent"), another(**{"kind": "silent", **changes}), together, members)


def test_lost_coverage_of_another_rule_is_an_incident_of_its_own() -> None:
    lost = replace(ALERT, kind="coverage")
    joins(lost, another(kind="coverage", rule_id="other", starts_ns=SOON), together, [1, 1])
    joins(lost, another(kind="coverage", rule_id="other"), apart, [2])


def joins(before: StoredAlert, alert: StoredAlert, failed_together: Any, members: list[int]) -> None:
    (first,) = incidents_now([], [before], failed_together)
    found = incidents_now([first], [*first.members, alert], failed_together)
    assert [len(each.members) for each in found] == members
    assert found[0].id == first.id
    assert all(member.incident == each.id for each in found for member in each.members)


def test_what_is_counted_joins_a_fall_that_is_found_later() -> None:
    """An error budget that is spent too fast says nothing of when when; the fall began more than an hour before."""
    began = ALERT.starts_ns - 2 * HOUR_NS
    budget = another(kind="slo", starts_ns=ALERT.starts_ns)
    fall = replace(ALERT, kind="drop", rule_id="other", starts_ns=SOON, facts=replace(ALERT.facts, since_ns=began))
    (found,) = incidents_now([], [budget], together)
    assert len(incidents_now([found], [*found.members, fall], together)) == 1
    long_ago = replace(fall, facts=replace(ALERT.facts, since_ns=began - 24 * HOUR_NS))
    known = replace(budget, kind="below", facts=replace(ALERT.facts, since_ns=began))
    (found,) = incidents_now([], [known], together)
    assert len(incidents_now([found], [*found.members, long_ago], together)) == 2


def test_the_most_serious_alert_leads() -> None:
    worse = another(level="critical", kind="drop")
    (found,) = incidents_now([], [ALERT, worse], apart)
    assert (found.lead.level, found.level, found.labels["severity"]) == ("critical", "critical", "critical")
    (found,) = incidents_now([found], [*found.members, another(fingerprint="00" * 16, kind="above")], apart)
    assert found.lead.key == worse.key, "by whose labels it is known"


def test_the_clearest_alert_is_the_one_that_is_told_of() -> None:
    """It need not be the one that was found first, by whose labels an incident is known."""
    fall = another(kind="drop", facts=replace(ALERT.facts, was=0.97, was_samples=500))
    found = incident(replace(ALERT, kind="slo"), ALERT, fall)
    assert (found.lead.kind, found.clearest.kind, found.labels["kind"]) == ("slo", "drop", "slo")
    assert "pass rate fell from 97% to 50%" in headline(found)
    over = replace(fall, state="resolved", ends_ns=SOON)
    assert incident(replace(ALERT, kind="slo"), ALERT, over).clearest.kind == "below", "it still fires"


def test_what_is_over_is_not_joined() -> None:
    over = incident(replace(ALERT, state="resolved", ends_ns=SOON))
    found = incidents_now([over], [*over.members, another(kind="drop", starts_ns=LATER)], apart)
    assert [each.state for each in found] == ["resolved", "firing"]


def test_what_fires_again_while_another_alert_still_does_is_no_second_incident() -> None:
    drop = another(kind="drop")
    over = incident(ALERT, replace(drop, state="resolved", ends_ns=SOON))
    (found,) = incidents_now([over], [*over.members, replace(drop, starts_ns=LATER)], apart)
    assert (found.id, found.state) == (over.id, "firing")
    assert [member.state for member in found.members] == ["firing", "resolved", "firing"]


def test_an_incident_ends_with_its_last_alert() -> None:
    over = replace(ALERT, state="resolved", ends_ns=SOON)
    still = another(kind="drop")
    assert incident(over, still).ends_ns is None
    assert incident(over, replace(still, state="resolved", ends_ns=LATER)).ends_ns == LATER


def test_rules_that_fail_on_the_same_traces_are_one_incident(stage: Stage) -> None:
    stage.rule_set = two_rules()
    stage.receive(0, "fail", "fail", judged_by=stage.rule_set.rules)
    assert len(stage.step(1)) == 1
    assert stage.channel.members == [2]
    assert headline(stage.incidents()[0]).endswith("(+1 alert)")


def test_rules_that_fail_on_different_traces_are_two(stage: Stage) -> None:
    stage.rule_set = two_rules()
    for rule in stage.rule_set.rules:
        stage.receive(0, "fail", "fail", judged_by=[rule])
    assert len(stage.step(1)) == 2
    assert stage.channel.members == [1, 1]


def two_rules() -> RuleSet:
    return RuleSet([*rules().rules, *rules(id="second").rules])


def test_a_silenced_incident_stays_open(stage: Stage) -> None:
    with stage.engine.begin() as connection:
        save_silence(connection, Silence("1", {"service": "sh*"}, START_NS, START_NS + 5 * MINUTE_NS, ""))
    stage.receive(0, "fail", "fail")
    assert stage.step(1) == []
    assert [each.state for each in stage.incidents()] == ["firing"]


def test_what_the_judge_has_not_reached_is_not_looked_at(stage: Stage) -> None:
    """A judge that is an hour behind: nothing it has not judged is taken for silence, or for its absence."""
    stage.judged_to_ns = START_NS
    stage.receive(30, "fail", "fail")
    assert stage.step(31) == []
    stage.judged_to_ns = START_NS + 31 * MINUTE_NS
    assert stage.step(91) == [("checkout-order", "shop", "firing")]
    assert stage.incidents()[0].starts_ns == START_NS + 31 * MINUTE_NS


def test_a_judge_that_starts_again_is_not_followed_back(stage: Stage) -> None:
    stage.receive(0, "fail", "fail")
    stage.receive(2, "fail", "fail", service="new")
    stage.step(3)
    waited, open_before = stage.incidents(), len(stage.incidents())
    for judged_to_ns in (0, START_NS + MINUTE_NS):
        stage.judged_to_ns = judged_to_ns
        assert stage.step(4) == []
        assert stage.incidents() == waited
    stage.judged_to_ns = START_NS + 4 * MINUTE_NS
    stage.step(4)
    assert len(stage.incidents()) == open_before
    assert {alert.updated_ns for alert in stage.firing()} == {START_NS + 4 * MINUTE_NS}


def test_an_accepted_level_ends_the_incident_and_is_the_new_baseline(detecting: Stage) -> None:
    stage = detecting
    stage.rule_set = rules({"drop": {"against": "7d"}})
    for hour in range(0, 14 * 24, 3):
        stage.receive(60 * hour, *["pass"] * 9, "fail")
    begin = 14 * 24 * 60
    for minute in range(begin, begin + 600, 20):
        stage.receive(minute, *["pass"] * 6, *["fail"] * 4)
    assert len(stage.step(begin + 600)) == 1
    (found,) = stage.incidents()
    with stage.engine.begin() as connection:
        accept(connection, found.id, START_NS + (begin + 600) * MINUTE_NS)
    assert [told[2] for told in stage.step(begin + 601)] == ["resolved"]
    with reading(stage.engine) as connection:
        (ended,) = recent_incidents(connection, 0)
    assert "when its level was accepted as normal" in headline(ended)
    for minute in range(begin + 600, begin + 3000, 60):
        stage.receive(minute, *["pass"] * 6, *["fail"] * 4)
    assert stage.step(begin + 3000) == [], "that is normal now"
    for minute in range(begin + 3000, begin + 3600, 20):
        stage.receive(minute, "pass", *["fail"] * 9)
    assert len(stage.step(begin + 3600)) == 1
    assert stage.firing()[0].facts.was == pytest.approx(0.6, abs=0.05)


def test_a_further_fall_is_not_accepted_with_the_level_before_it(detecting: Stage) -> None:
    """The bound still fires, so the incident goes on; the fall that joins it later was accepted by nobody."""
    stage = detecting
    stage.rule_set = rules({"drop": {"against": "7d"}}, {"below": 0.85})
    for hour in range(0, 14 * 24, 3):
        stage.receive(60 * hour, *["pass"] * 9, "fail")
    begin = 14 * 24 * 60
    for minute in range(begin, begin + 600, 10):
        stage.receive(minute, *["pass"] * 6, *["fail"] * 4)
    stage.step(begin + 600)
    assert sorted(alert.kind for alert in stage.firing()) == ["below", "drop"]
    with stage.engine.begin() as connection:
        accept(connection, stage.incidents()[0].id, START_NS + (begin + 600) * MINUTE_NS)
    stage.step(begin + 601)
    assert [alert.kind for alert in stage.firing()] == ["below"]
    for minute in range(begin + 610, begin + 1200, 10):
        stage.receive(minute, "pass", *["fail"] * 9)
    for minute in (1200, 1201):
        stage.step(begin + minute)
        assert len(set(stage.channel.keys)) == 1, "still one incident"
        assert sorted(alert.kind for alert in stage.firing()) == ["below", "drop"]
