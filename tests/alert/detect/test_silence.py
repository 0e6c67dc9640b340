"""``coverage: {silent}`` through `check`: who sent results and sends none is notified of, to the minute."""

from typing import Any

from build import each
from build.staged import DAY, HourlyStage, Stage, rule_of
from tracegrade.alert.check import Before, check
from tracegrade.alert.notify.message import lines, summary
from tracegrade.rule.rule import Rule
from tracegrade.store.schema import MINUTE_NS

WEEK = 7 * DAY
SILENT = {"coverage": {"silent": "30m"}}


def silent_after(minute: int, rule: Rule | None = None, **place: Any) -> Stage:
    """Two results every ten minutes since a day before `minute`, the last ones in the minute before it."""
    stage = HourlyStage(rule or rule_of(SILENT))
    stage.see(range(minute - DAY + 9, minute, 10), passed=1, failed=1, **place)
    return stage


def test_silence_fires_to_the_minute_and_is_over_when_results_come_again() -> None:
    stage = silent_after(WEEK)
    assert stage.look(WEEK + 29) == []
    assert stage.look(WEEK + 30) == ["firing"]
    (alert,) = stage.alerts
    assert (alert.kind, alert.value, alert.bound, alert.samples, alert.release) == ("silent", 1800, 1800, 288, None)
    assert alert.facts.since_ns == WEEK * MINUTE_NS
    assert alert.facts.by_chance_every_s is None
    assert summary(alert) == "Agent support at shop has sent no results for 30 minutes (rule one)"
    assert "Before: 288 results in 7 days" in lines(alert)
    assert stage.look(WEEK + 175) == ["firing"]
    assert summary(stage.alerts[0]).endswith("has sent no results for 2 hours 55 minutes (rule one)")
    stage.see(range(WEEK + 180, WEEK + 181), not_evaluable=1)
    assert stage.look(WEEK + 181) == ["resolved"]
    assert summary(stage.earlier[0]).endswith("sends results again, after 3 hours without any (rule one)")


@each("minute", [0, 1, 29, 30, 31, 59])
@each("silent", ["1m", "30m", "2h", "5h30m", "3d"])
def test_silence_of_any_length_at_any_minute_of_an_hour_is_exact(silent: str, minute: int) -> None:
    last = 14 * DAY + 300 + minute
    stage = silent_after(last, rule_of({"coverage": {"silent": silent}}))
    length = {"1m": 1, "30m": 30, "2h": 120, "5h30m": 330, "3d": 3 * DAY}[silent]
    assert stage.look(last + length - 1) == []
    assert stage.look(last + length) == ["firing"]
    assert stage.alerts[0].facts.since_ns == last * MINUTE_NS


def test_each_agent_is_silent_by_itself_whatever_release_sends() -> None:
    stage = silent_after(WEEK, agent="support")
    stage.see(range(WEEK - DAY, WEEK, 10), passed=1, agent="refunds", release="1.0")
    stage.see(range(WEEK, WEEK + 60, 10), passed=1, agent="refunds", release="2.0")
    assert stage.look(WEEK + 60) == ["firing"]
    assert [alert.agent for alert in stage.alerts] == ["support"]


def test_who_sent_too_few_is_not_missed() -> None:
    stage = Stage(rule_of(SILENT))
    stage.see(range(WEEK - 29, WEEK), passed=1)
    assert stage.look(WEEK + 60) == []
    stage.see(range(WEEK - 30, WEEK - 29), not_evaluable=1)
    assert stage.look(WEEK + 60) == ["firing"], "30 results of any outcome"


def test_silence_that_nobody_ends_is_stale_after_a_week_and_does_not_fire_again() -> None:
    stage = silent_after(WEEK)
    stage.stale_after_s = 86_400.0
    assert stage.look(WEEK + 30) == ["firing"]
    assert stage.look(WEEK + 30 + 7 * DAY - 1) == ["firing"]
    assert stage.look(WEEK + 30 + 7 * DAY) == ["resolved"]
    assert summary(stage.earlier[0]).endswith("has sent no results for 7 days and is no longer watched (rule one)")
    assert stage.look(WEEK + 31 + 7 * DAY) == []
    assert stage.look(WEEK + 60 + 7 * DAY) == []


def test_one_result_after_silence_and_silence_again_fires_again() -> None:
    stage = silent_after(WEEK)
    assert stage.look(WEEK + 30) == ["firing"]
    stage.see(range(WEEK + 40, WEEK + 41), passed=1)
    assert stage.look(WEEK + 41) == ["resolved"]
    assert stage.look(WEEK + 70) == []
    assert stage.look(WEEK + 71) == ["firing"]


def test_results_that_were_only_late_end_it() -> None:
    stage = silent_after(WEEK)
    assert stage.look(WEEK + 30) == ["firing"]
    stage.see(range(WEEK + 20, WEEK + 21), passed=1)
    assert stage.look(WEEK + 31) == ["resolved"]


def test_what_is_counted_does_not_make_tests_need_more_evidence() -> None:
    """Three agents, of which each is looked at by both alerts of one rule: the test is of three series."""
    stage = Stage(rule_of({"below": 0.9}, SILENT))
    for agent in ("a", "b", "c"):
        stage.see(range(DAY), passed=1, agent=agent)
    below, silent = check(stage, [stage.rule], Before(), DAY * MINUTE_NS).not_fired
    assert below.needed == 3
    assert silent.evidence is None
    checked = check(stage, [stage.rule], Before(), (DAY + 30) * MINUTE_NS)
    assert [alert.kind for alert in checked.open] == ["silent"] * 3
