"""``drop`` and ``coverage`` through `check`, a day of results a minute apart."""

from typing import Any

import pytest

from build.staged import DAY, Stage, rule_of
from tracegrade.alert.notify.message import summary
from tracegrade.store.schema import MINUTE_NS

DROP = {"drop": {"against": "7d"}, "over": "1d"}
WEEK = 7 * DAY


def week(rule: Any = None, **place: Any) -> Stage:
    """A week at 90 %, ten results each hour."""
    stage = Stage(rule or rule_of(DROP))
    stage.see(range(0, WEEK, 60), passed=9, failed=1, **place)
    return stage


def test_a_fall_fires_says_from_where_to_where_since_when_and_is_over_after_as_sure_a_rise() -> None:
    stage = week()
    stage.see(range(WEEK, WEEK + 300, 10), passed=9, failed=1)
    assert stage.look(WEEK + 300) == []
    stage.see(range(WEEK + 300, WEEK + 600, 10), passed=6, failed=4)
    assert stage.look(WEEK + 600) == ["firing"]
    (alert,) = stage.alerts
    assert alert.facts.was == pytest.approx(0.9)
    assert alert.facts.was_samples > 800
    assert alert.value == pytest.approx(0.6)
    assert alert.facts.since_ns == (WEEK + 300) * MINUTE_NS
    assert alert.facts.by_chance_every_s is not None
    assert alert.facts.by_chance_every_s > 30 * 86_400
    stage.see(range(WEEK + 600, WEEK + 650, 10), passed=9, failed=1)
    assert stage.look(WEEK + 650) == ["firing"], "50 results do not say that it is over"
    stage.see(range(WEEK + 650, WEEK + 3000, 10), passed=9, failed=1)
    assert stage.look(WEEK + 3000) == ["resolved"]
    (ended,) = stage.earlier
    assert ended.facts.fired_at == pytest.approx(0.6)
    assert "pass rate recovered from 60% to 90% (" in summary(ended)
    assert stage.look(WEEK + 3001) == [], "what made it fire before does not make it fire again"


def test_the_baseline_does_not_creep_after_a_fall_that_stays() -> None:
    stage = week()
    stage.see(range(WEEK, 3 * WEEK, 60), passed=7, failed=3)
    for day in range(1, 14):
        assert stage.look(WEEK + day * DAY) == ["firing"], day
        assert stage.alerts[0].facts.was == pytest.approx(0.9)


def test_a_stated_baseline_needs_no_history() -> None:
    stage = Stage(rule_of({"drop": {"against": 0.95}}))
    stage.see(range(60), passed=1, failed=1)
    assert stage.look(60) == ["firing"]


@pytest.mark.parametrize(("results", "fires"), [(60, []), (6000, ["firing"])])
def test_a_baseline_of_few_results_is_not_taken_at_its_word(results: int, fires: list[str]) -> None:
    """From 90 % to 70 %: 60 results may have come out at 90 % by chance."""
    stage = Stage(rule_of(DROP))
    stage.see(range(0, WEEK, WEEK * 10 // results), passed=9, failed=1)
    stage.see(range(WEEK, WEEK + 180, 10), passed=35, failed=15)
    assert stage.look(WEEK + 180) == fires


def test_where_everything_failed_before_nothing_can_fall() -> None:
    """Ratios of 1 over two months are as much evidence as two false alarms in a month."""
    stage = Stage(rule_of({"drop": {"against": "60d"}, "over": "1d"}))
    stage.see(range(0, 121 * DAY, 60), passed=0, failed=10)
    assert stage.look(121 * DAY) == []


def test_without_a_history_nobody_can_tell() -> None:
    stage = Stage(rule_of(DROP))
    stage.see(range(0, DAY, 10), passed=1, failed=9)
    assert stage.look(DAY) == []


def test_silence_does_not_fire_and_does_not_resolve() -> None:
    stage = week()
    assert stage.look(WEEK + 600) == []
    stage.see(range(WEEK + 600, WEEK + 700), passed=5, failed=5)
    assert stage.look(WEEK + 700) == ["firing"]
    assert stage.look(WEEK + 3 * DAY) == ["firing"]


def test_an_alert_at_which_nothing_came_for_long_is_ended_and_begins_anew_with_new_fails_alone() -> None:
    stage = week()
    stage.stale_after_s = 86_400.0
    stage.see(range(WEEK, WEEK + 180), passed=5, failed=5)
    assert stage.look(WEEK + 180) == ["firing"]
    assert stage.look(WEEK + 180 + DAY - 1) == ["firing"]
    assert stage.look(WEEK + 180 + DAY) == ["resolved"]
    assert stage.earlier[0].facts.ended_by == "no results came for 1 day"
    assert stage.look(WEEK + 240 + DAY) == []
    stage.see(range(WEEK + 240 + DAY, WEEK + 420 + DAY), passed=5, failed=5)
    assert stage.look(WEEK + 420 + DAY) == ["firing"]


def test_lost_coverage_is_not_stale_while_traces_come() -> None:
    stage = week(rule_of(COVERAGE))
    stage.stale_after_s = 86_400.0
    stage.see(range(WEEK, WEEK + 2 * DAY, 10), traces=10)
    assert stage.look(WEEK + 360) == ["firing"]
    assert stage.look(WEEK + 2 * DAY) == ["firing"]
    assert stage.look(WEEK + 3 * DAY) == ["resolved"]


def test_a_new_release_is_compared_with_the_ones_before() -> None:
    stage = week()
    stage.see(range(WEEK, WEEK + 60), passed=5, failed=5, release="2.0")
    stage.see(range(WEEK, WEEK + 60), passed=9, failed=1, release="1.0")
    assert stage.look(WEEK + 60) == ["firing"]
    assert [alert.release for alert in stage.alerts] == ["2.0"]


def test_a_release_that_was_rolled_back_ends_its_alert_and_does_not_fire_again() -> None:
    stage = week()
    stage.see(range(WEEK, WEEK + 120, 10), passed=4, failed=6, release="2.0")
    assert stage.look(WEEK + 120) == ["firing"]
    stage.see(range(WEEK + 120, WEEK + 140, 5), passed=9, failed=1)
    assert stage.look(WEEK + 119) == ["firing"], "2.0 may still be sending"
    assert stage.look(WEEK + 140) == ["resolved"]
    assert stage.earlier[0].facts.ended_by == "release 1.0 replaced 2.0"
    assert stage.look(WEEK + 200) == []


def test_two_releases_that_both_send_do_not_replace_each_other() -> None:
    stage = week()
    stage.see(range(WEEK, WEEK + 600, 10), passed=4, failed=6, release="2.0")
    stage.see(range(WEEK, WEEK + 600, 10), passed=9, failed=1)
    assert [stage.look(WEEK + minute) for minute in (120, 300, 600)] == [["firing"]] * 3


def test_results_of_another_form_of_the_rule_are_no_baseline() -> None:
    stage = week(rule_hash="of-another-form")
    stage.see(range(WEEK, WEEK + 60), passed=5, failed=5)
    assert stage.look(WEEK + 60) == []


def test_a_sample_of_a_twentieth_that_keeps_every_fail_is_not_a_fall() -> None:
    """The same 90 %: of 20 passes one is kept, every fail is. Looked at as they are, two thirds fail."""
    stage = Stage(rule_of(DROP, sample={"share": 0.05, "keep_failures": True}))
    for minutes in (range(0, WEEK, 60), range(WEEK, WEEK + 600, 10)):
        stage.see(minutes, passed=9, weight=20.0)
        stage.see(minutes, failed=20)
    assert stage.look(WEEK + 600) == []
    stage.see(range(WEEK + 600, WEEK + 900, 10), passed=7, weight=20.0)
    stage.see(range(WEEK + 600, WEEK + 900, 10), failed=60)
    assert stage.look(WEEK + 900) == ["firing"]
    assert stage.alerts[0].facts.was == pytest.approx(0.9)
    assert stage.alerts[0].value == pytest.approx(0.7)


COVERAGE = {"coverage": {"against": "7d"}, "over": "6h"}


def test_results_that_stop_while_traces_come_are_lost_coverage() -> None:
    stage = week(rule_of(COVERAGE))
    stage.see(range(WEEK, WEEK + 360, 10), traces=10)
    assert stage.look(WEEK + 360) == ["firing"]
    (alert,) = stage.alerts
    assert (alert.kind, alert.value, alert.release) == ("coverage", 0.0, None)
    stage.see(range(WEEK + 360, WEEK + 800, 10), passed=10)
    assert stage.look(WEEK + 800) == ["resolved"]


def test_a_service_that_sends_nothing_has_not_lost_coverage() -> None:
    stage = week(rule_of(COVERAGE))
    assert stage.look(WEEK + 360) == []


def test_results_that_come_without_their_content_are_lost_coverage() -> None:
    stage = week(rule_of(COVERAGE))
    stage.see(range(WEEK, WEEK + 360, 10), not_evaluable=10)
    assert stage.look(WEEK + 360) == ["firing"]


def test_more_failures_are_no_lost_coverage() -> None:
    stage = week(rule_of(COVERAGE))
    stage.see(range(WEEK, WEEK + 360, 10), failed=10)
    assert stage.look(WEEK + 360) == []


def test_a_rule_that_judges_few_of_many_traces_has_the_coverage_that_it_always_had() -> None:
    stage = Stage(rule_of(COVERAGE))
    stage.see(range(0, WEEK + 360, 10), passed=1, traces=20)
    assert stage.look(WEEK + 360) == []


def test_a_level_that_was_accepted_of_a_release_is_that_of_the_releases_to_come() -> None:
    stage = week(release="1.0")
    stage.see(range(WEEK, WEEK + 600, 10), passed=9, failed=1, release="1.0")
    stage.see(range(WEEK, WEEK + 600, 10), passed=6, failed=4, release="1.1")
    assert stage.look(WEEK + 600) == ["firing"]
    assert [alert.release for alert in stage.alerts] == ["1.1"]
    stage.accepted = {stage.alerts[0].key}
    assert stage.look(WEEK + 601) == ["resolved"]
    stage.see(range(WEEK + 610, WEEK + 2000, 10), passed=6, failed=4, release="1.1")
    stage.see(range(WEEK + 2000, WEEK + 4000, 10), passed=6, failed=4, release="1.2")
    for minute in range(WEEK + 700, WEEK + 4000, 300):
        assert stage.look(minute) == [], minute
    stage.see(range(WEEK + 4000, WEEK + 4600, 10), passed=3, failed=7, release="1.2")
    assert stage.look(WEEK + 4600) == ["firing"]
    assert stage.alerts[0].facts.was == pytest.approx(0.6, abs=0.02)
