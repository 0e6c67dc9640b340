"""What an alert says beside its value: since when, on how many traces, which to look at, and what changed."""

from typing import Any

import pytest

from build.judged_traces import MINUTE_NS, START_NS, evaluation, trace_id
from build.loop_stage import Stage, rules
from tracegrade.alert.notify.message import lines
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.incidents import open_incidents
from tracegrade.store.open import reading


def fired(stage: Stage, minute: int) -> StoredAlert:
    stage.step(minute)
    (alert,) = stage.firing()
    return alert


def test_an_alert_says_where_to_look_and_what_changed(stage: Stage) -> None:
    stage.receive(0, *["pass"] * 30, release="1.0")
    stage.receive(70, "fail", "fail", release="1.1")
    alert = fired(stage, 71)
    assert alert.facts.worst == [trace_id(31), trace_id(30)]
    assert alert.facts.changed == ["release 1.1 first seen at 2026-01-01 01:10 UTC"]


@pytest.mark.parametrize(
    ("alert", "good", "bad"),
    [
        ({"below": 0.9}, "pass", "fail"),
        ({"below": 0.9, "of": "tool-call-order.score"}, "pass", "fail"),
        ({"above": 0.1, "of": "not_evaluable"}, "pass", "not_evaluable"),
        ({"above": 0.1, "of": "error"}, "fail", "error"),
        ({"coverage": {"against": "6h"}}, "pass", "not_evaluable"),
    ],
)
def test_it_says_since_when_and_on_how_many_traces(
    detecting: Stage, alert: dict[str, Any], good: str, bad: str
) -> None:
    """Well for eight hours, then bad from minute 500 on."""
    detecting.rule_set = rules(alert | {"over": "2h", "min_samples": 10})
    for minute in range(0, 500, 20):
        detecting.receive(minute, *[good] * 4)
    for minute in range(500, 540, 4):
        detecting.receive(minute, *[bad] * 8)
    found = fired(detecting, 540)
    assert found.facts.since_ns == START_NS + 500 * MINUTE_NS
    # The window of coverage begins with a whole hour, here with minute 420; the others with minute 420 as well.
    assert found.facts.traces == 4 * 4 + 8 * 10
    assert "Found on 96 traces at 2026-01-01 09:00 UTC" in lines(found)
    assert len(found.facts.worst) == 5


def test_traces_of_other_releases_forms_and_evaluations_are_not_the_ones_to_look_at(stage: Stage) -> None:
    stage.receive(0, "fail", release="2.0")
    stage.receive(0, "fail", rule_hash="an earlier form")
    stage.receive(0, "fail", "fail", release="1.0")
    alert = fired(stage, 1)
    assert alert.release == "1.0"
    assert alert.facts.worst == [trace_id(3), trace_id(2)]


def test_of_a_watched_evaluation_traces_that_fail_another_are_not_the_ones_to_look_at(stage: Stage) -> None:
    stage.rule_set = rules({"below": 0.9, "of": "tool-call-order", "over": "10m", "min_samples": 2})
    others = [evaluation(0, "pass"), evaluation(0, "fail", evaluation="budget")]
    stage.receive(0, "fail", evaluations=others)
    stage.receive(0, *["fail"] * 4)
    assert fired(stage, 1).facts.worst == [trace_id(number) for number in (4, 3, 2, 1)]


def test_incomplete_traces_are_looked_at_where_they_count(stage: Stage) -> None:
    stage.rule_set = rules(incomplete="count")
    stage.receive(0, "fail", "fail", complete=False)
    alert = fired(stage, 1)
    assert (alert.facts.traces, alert.facts.worst) == (2, [trace_id(1), trace_id(0)])


def test_of_very_many_traces_only_the_latest_are_counted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.alert.diagnose.diagnose._MOST_COUNTED", 3)
    stage.receive(0, *["fail"] * 4)
    assert "Found on at least 3 traces at 2026-01-01 00:01 UTC" in lines(fired(stage, 1))


def test_another_version_of_tracegrade_is_named_where_it_began_to_judge(stage: Stage) -> None:
    """Those before versions were kept, then two: the later is told, and only near the time when it began."""
    stage.receive(0, *["pass"] * 30)
    stage.receive(500, *["pass"] * 30, tracegrade="0.1.0")
    stage.receive(1000, "fail", "fail", tracegrade="0.2.0+5b8e9d3c")
    alert = fired(stage, 1001)
    assert alert.facts.changed == [
        "TraceGrade 0.2.0+5b8e9d3c instead of 0.1.0, first judged at 2026-01-01 16:40 UTC",
    ]
    assert "TraceGrade 0.2.0+5b8e9d3c instead of 0.1.0" in "\n".join(lines(alert))


def test_the_first_version_that_is_known_is_told_too(stage: Stage) -> None:
    stage.receive(0, *["pass"] * 30)
    stage.receive(120, "fail", "fail", tracegrade="0.2.0")
    changed = fired(stage, 121).facts.changed
    assert changed == ["TraceGrade 0.2.0 instead of an earlier version, first judged at 2026-01-01 02:00 UTC"]


def test_when_results_of_another_tenant_came_is_not_told(stage: Stage) -> None:
    """Its results were the first of this version, and of this form of the rule."""
    stage.receive(0, *["pass"] * 30, tracegrade="0.1.0", rule_hash="before")
    stage.receive(0, *["pass"] * 30, tracegrade="0.1.0", rule_hash="before", tenant="globex")
    stage.receive(90, "pass", tracegrade="0.2.0", tenant="globex")
    stage.receive(120, *["fail"] * 9, tracegrade="0.2.0")
    assert fired(stage, 121).facts.changed == [
        "the rule was changed; this form first judged at 2026-01-01 02:00 UTC",
        "TraceGrade 0.2.0 instead of 0.1.0, first judged at 2026-01-01 02:00 UTC",
    ]


def test_an_edited_text_is_no_change_of_the_rule(stage: Stage) -> None:
    stage.receive(0, *["pass"] * 30)
    stage.rule_set = rules(title="Said otherwise", level="critical")
    stage.receive(120, "fail", "fail", level="critical")
    assert fired(stage, 121).facts.changed == []
    stage.rule_set = rules(scope="trace")
    stage.receive(240, *["fail"] * 9)
    stage.step(241)
    (alert,) = [alert for alert in stage.firing() if alert.rule_hash == stage.rule_set.rules[0].hash]
    assert alert.facts.changed == ["the rule was changed; this form first judged at 2026-01-01 04:00 UTC"]


def test_a_notification_says_why_and_where(stage: Stage) -> None:
    for minute in range(0, 300, 10):
        stage.receive(minute, "pass", release="1.0")
    for minute in range(300, 310):
        stage.receive(minute, "fail", "fail", release="1.0")
    (told,) = [line for line in lines(fired(stage, 310)) if line.startswith("Reason")]
    assert told == (
        "Reason: tool-call-order: 1 of 4 expected calls came in order (20 of 20 fails; 100% of all results, 0% before)"
    )


def test_what_broke_is_stored_and_read_back(stage: Stage) -> None:
    for minute in range(0, 60, 2):
        stage.receive(minute, "pass", release="1.0")
    stage.receive(70, *["fail"] * 10, release="1.1")
    stage.receive(70, *["pass"] * 30, release="1.0")
    found = fired(stage, 71).facts
    assert [(reason.evaluation, reason.count) for reason in found.reasons] == [("tool-call-order", 10)]
    assert found.reasons[0].share_before == 0.0


def test_causes_are_computed_with_each_check_and_dated(stage: Stage) -> None:
    stage.rule_set = rules({"slo": {"objective": 0.99, "window": "1d"}, "min_samples": 2})
    for minute in range(0, 60, 2):
        stage.receive(minute, "pass", release="1.0")
    stage.receive(70, *["fail"] * 5, release="1.1")
    alert = fired(stage, 71)
    assert named(alert) == ("as of 2026-01-01 01:11 UTC", "release 1.1")
    assert alert.facts.changed == ["release 1.1 first seen at 2026-01-01 01:10 UTC"]
    stage.receive(72, *["fail"] * 9, release="1.2")
    assert named(fired(stage, 73)) == ("as of 2026-01-01 01:13 UTC", "release 1.2")
    assert fired(stage, 74).facts.causes_as_of_ns == START_NS + 74 * MINUTE_NS, "while bad results are in sight"
    assert named(fired(stage, 140)) == ("as of 2026-01-01 01:14 UTC", "release 1.2"), "nothing came since"


def named(alert: StoredAlert) -> tuple[str, str]:
    """When the causes were computed, and what explains most."""
    said = lines(alert)
    (place,) = [number for number, line in enumerate(said) if line.startswith("Causes")]
    where = next(line for line in said[place:] if line.startswith("Where: release"))
    return said[place].removeprefix("Causes ").partition(",")[0], where.removeprefix("Where: ").partition(",")[0]


def test_causes_are_computed_less_often_where_that_takes_long(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.alert.loop._MOST_FOR_CAUSES", 1e-9)
    stage.receive(0, "fail", "fail")
    stage.receive(0, "fail", "fail", service="bank")
    stage.step(1)
    stage.receive(2, *["fail"] * 9)
    stage.receive(2, "fail", "fail", service="new")
    stage.step(3)
    as_of = {alert.service: (alert.facts.causes_as_of_ns - START_NS) // MINUTE_NS for alert in stage.firing()}
    assert as_of == {"shop": 1, "bank": 1, "new": 3}, "what begins is told at once"


def test_of_very_many_that_begin_at_once_those_that_lead_incidents_say_what_broke(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rules fall on traces of their own: each is an incident, with an alert on its mean score beside the first."""
    monkeypatch.setattr("tracegrade.alert.diagnose.diagnose.MOST_TOLD", 2)
    both = [{"below": 0.9, "over": "10m", "min_samples": 2}]
    both.append(both[0] | {"of": "tool-call-order.score"})
    stage.rule_set = RuleSet([rules(*both, id=name).rules[0] for name in ("orders", "refunds")])
    for rule in stage.rule_set.rules:
        for _ in range(2):
            of_rule = [evaluation(stage.next_trace, "fail", rule_id=rule.id)]
            stage.receive(0, "fail", evaluations=of_rule, rule_hash=rule.hash)
    stage.step(1)
    with reading(stage.engine) as connection:
        members = [incident.members for incident in open_incidents(connection)]
    assert [len(some) for some in members] == [2, 2]
    told = [[bool(member.facts.reasons) for member in some] for some in members]
    assert sum(some.count(True) for some in told) == 2
    assert all(some[0] for some in told)
    stage.step(2)
    with reading(stage.engine) as connection:
        again = [[member.facts.causes_as_of_ns for member in each.members] for each in open_incidents(connection)]
    assert [some[0] - START_NS for some in again] == [2 * MINUTE_NS] * 2, "those that are told of, again"
