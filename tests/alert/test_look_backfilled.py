"""What was judged afterwards tells an alert what is usual, and nothing about what happens now."""

from typing import Any

import pytest

from build import each
from build.staged import DAY, HourlyStage, Stage, rule_of
from tracegrade.model.tally import Tally

WEEK = 7 * DAY
DROP = {"drop": {"against": "7d"}, "over": "1d"}
COVERAGE = {"coverage": {"against": "7d"}, "over": "6h"}
RISE = {"rise": {"against": "7d", "by": 0.5}, "of": "tokens", "over": "1d"}
EVERY_ALERT = (
    DROP,
    COVERAGE,
    {"below": 0.8, "over": "1d"},
    {"above": 0.5, "of": "not_evaluable", "over": "1d"},
    {"drop": {"against": 0.9}, "over": "1d"},
    {"coverage": {"silent": "2h"}},
    {"slo": {"objective": 0.8, "window": "7d"}},
)


def fortnight(*alerts: dict[str, Any], passed: int = 9, failed: int = 1) -> Stage:
    """Two weeks of traces before the rule was deployed, at 90 % unless told, judged afterwards."""
    stage = HourlyStage(rule_of(*alerts))
    stage.judge_afterwards(range(-WEEK, WEEK, 20), passed=passed, failed=failed)
    return stage


def looks(stage: Stage, first: int, last: int, every: int = 20) -> None:
    for minute in range(first, last + 1, every):
        stage.look(WEEK + minute)


def test_a_fall_is_found_in_the_first_hours_of_a_new_rule() -> None:
    stage, without = fortnight(DROP), HourlyStage(rule_of(DROP))
    for staged in (stage, without):
        staged.see(range(WEEK, WEEK + 360, 4), passed=5, failed=5)
        looks(staged, 20, 360)
    (alert,) = stage.alerts
    assert alert.facts.was == pytest.approx(0.9, abs=0.01)
    assert alert.facts.since_ns is not None
    assert alert.facts.since_ns >= WEEK * 60_000_000_000, "not before anything was judged live"
    assert without.alerts == [], "nobody knew what is usual"


def test_nothing_is_raised_where_what_is_live_is_as_it_was() -> None:
    stage = fortnight(DROP)
    stage.see(range(WEEK, WEEK + 3 * DAY, 20), passed=9, failed=1)
    looks(stage, 20, 3 * DAY, 60)
    assert (stage.alerts, stage.earlier) == ([], [])


def test_a_later_fall_is_found_and_ends() -> None:
    stage = fortnight(DROP)
    stage.see(range(WEEK, WEEK + 2 * DAY, 10), passed=9, failed=1)
    stage.see(range(WEEK + 2 * DAY, WEEK + 2 * DAY + 600, 10), passed=5, failed=5)
    stage.see(range(WEEK + 2 * DAY + 600, WEEK + 4 * DAY, 10), passed=9, failed=1)
    looks(stage, 60, 4 * DAY, 60)
    (alert,) = stage.earlier
    assert alert.facts.was == pytest.approx(0.9, abs=0.02)
    assert stage.alerts == []


@each("alert", EVERY_ALERT, ids=lambda alert: next(iter(alert)))
@each(("passed", "failed"), [(0, 10), (9, 1)])
def test_no_alert_is_raised_by_what_was_judged_afterwards(alert: dict[str, Any], passed: int, failed: int) -> None:
    """All of it failed or not: the rule was deployed after it, and what it judges live is well."""
    stage = fortnight(alert, passed=passed, failed=failed)
    looks(stage, -3 * DAY, 0, 480)
    stage.see(range(WEEK, WEEK + 2 * DAY, 10), passed=95, failed=5)
    looks(stage, 10, 2 * DAY, 240)
    assert (stage.alerts, stage.earlier) == ([], [])


def test_a_fall_that_was_over_before_the_rule_was_deployed_is_not_told() -> None:
    stage = fortnight(DROP)
    stage.judge_afterwards(range(WEEK - 2 * DAY, WEEK, 20), failed=10)
    looks(stage, -2 * DAY, 0, 120)
    stage.see(range(WEEK, WEEK + 2 * DAY, 20), passed=9, failed=1)
    looks(stage, 20, 2 * DAY, 60)
    assert (stage.alerts, stage.earlier) == ([], [])


def test_backfilled_results_do_not_keep_a_silence_from_being_told() -> None:
    stage = HourlyStage(rule_of({"coverage": {"silent": "2h"}, "min_samples": 5}))
    stage.see(range(WEEK, WEEK + 600, 10), passed=1)
    stage.judge_afterwards(range(WEEK + 600, WEEK + 900, 10), passed=1)
    looks(stage, 600, 900)
    assert [alert.kind for alert in stage.alerts] == ["silent"]


def test_coverage_that_is_lost_after_a_backfill_is_told() -> None:
    """The rule was deployed in the middle of an hour; traces of before have no live result, which is no loss."""
    stage = fortnight(COVERAGE)
    traces = next(key for key in stage.seen if not key.rule_id)
    stage.judge_afterwards(range(WEEK, WEEK + 30, 2), passed=10)
    stage.see(range(WEEK + 30, WEEK + 1200, 5), passed=9, failed=1)
    looks(stage, 40, 1200, 30)
    assert (stage.alerts, stage.earlier) == ([], [])
    stage.put(range(WEEK + 1200, WEEK + 2000, 5), Tally.of(10, 0, 0, 0), **traces._asdict())
    looks(stage, 1230, 2000, 30)
    (alert,) = stage.alerts
    assert (alert.kind, alert.facts.was) == ("coverage", pytest.approx(1.0))


def test_a_rise_of_tokens_is_measured_against_what_was_judged_afterwards() -> None:
    stage = HourlyStage(rule_of(RISE))

    def tokens(minutes: range, mean: float) -> None:
        stage.put(minutes, Tally.of(10, 0, 0, 0, 10 * mean, 10.5 * mean * mean), evaluation="tokens")

    tokens(range(-WEEK, WEEK, 20), 1000.0)
    stage.afterwards, stage.seen = stage.seen, {}
    tokens(range(WEEK, WEEK + 600, 5), 1000.0)
    looks(stage, 60, 600)
    assert stage.alerts == []
    tokens(range(WEEK + 600, WEEK + 1200, 5), 3000.0)
    looks(stage, 620, 1200)
    assert [alert.kind for alert in stage.alerts] == ["rise"]


def test_a_release_of_its_own_is_compared_with_its_backfill() -> None:
    """2.0 was always worse than 1.0; it is no news that it still is."""
    stage = HourlyStage(rule_of(DROP))
    for name, share in (("1.0", 95), ("2.0", 70)):
        stage.judge_afterwards(range(-WEEK, WEEK, 30), passed=share, failed=100 - share, release=name)
        stage.see(range(WEEK, WEEK + 1200, 10), passed=share, failed=100 - share, release=name)
    looks(stage, 60, 1200, 60)
    assert (stage.alerts, stage.earlier) == ([], [])
