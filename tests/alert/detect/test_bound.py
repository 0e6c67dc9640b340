"""``below`` and ``above`` through `check`, on results that come each hour."""

from typing import Any

import pytest

from build.staged import DAY, Stage, rule_of
from tracegrade.alert.detect.finding import measure
from tracegrade.alert.notify.message import summary
from tracegrade.model.tally import Tally, total
from tracegrade.rule.alert import Alert

BELOW = {"below": 0.9, "over": "6h"}
HOUR = 60


def days(count: int, rule: Any = None, **outcomes: int) -> Stage:
    """So many days of the same outcomes every 20 minutes; 97 % pass unless said otherwise."""
    stage = Stage(rule or rule_of(BELOW))
    stage.see(range(0, count * DAY, 20), **(outcomes or {"passed": 32, "failed": 1}))
    return stage


def test_a_rate_below_its_bound_fires_and_is_resolved_by_as_much_evidence() -> None:
    stage = days(3)
    begin = 3 * DAY
    assert stage.look(begin) == []
    stage.see(range(begin, begin + 2 * HOUR, 5), passed=6, failed=4)
    assert stage.look(begin + 2 * HOUR) == ["firing"]
    (alert,) = stage.alerts
    assert (alert.bound, alert.facts.was) == (0.9, None)
    assert alert.facts.since_ns == begin * 60 * 10**9
    begin += 2 * HOUR
    stage.see(range(begin, begin + HOUR, 20), passed=32, failed=1)
    assert stage.look(begin + HOUR) == ["firing"], "100 results do not say that it is over"
    stage.see(range(begin + HOUR, begin + DAY, 20), passed=32, failed=1)
    assert stage.look(begin + DAY) == ["resolved"]
    assert "pass rate recovered from 83% to 97% (" in summary(stage.earlier[0])
    assert stage.look(begin + DAY + 60) == [], "what made it fire before does not make it fire again"


def test_a_rate_exactly_at_its_bound_does_not_fire() -> None:
    stage = days(14, passed=27, failed=3)
    assert [stage.look(day * DAY) for day in range(1, 14)] == [[]] * 13


def test_a_rate_that_stays_below_fires_once() -> None:
    stage = days(30, passed=24, failed=6)
    states = [stage.look(hour * HOUR) for hour in range(1, 30 * 24, 7)]
    first = states.index(["firing"])
    assert first < 12
    assert all(found == ["firing"] for found in states[first:])
    assert stage.earlier == []


def test_it_is_resolved_only_beyond_the_rate_that_the_rule_names() -> None:
    """97 % is above 90 %, and not above 97 %."""
    for resolve_at, state in ((0.9, "resolved"), (0.97, "firing")):
        stage = Stage(rule_of(BELOW | {"resolve_at": resolve_at}))
        stage.see(range(0, DAY, 20), passed=20, failed=13)
        assert stage.look(DAY) == ["firing"]
        stage.see(range(DAY, 4 * DAY, 20), passed=32, failed=1)
        assert stage.look(4 * DAY) == [state]


def test_few_results_are_unknown_and_neither_fire_nor_resolve() -> None:
    stage = Stage(rule_of(BELOW | {"min_samples": 40}))
    stage.see(range(0, 39 * HOUR, HOUR), failed=1)
    assert stage.look(39 * HOUR) == []
    stage.see(range(39 * HOUR, 40 * HOUR, HOUR), failed=1)
    assert stage.look(40 * HOUR) == ["firing"]
    stage.see(range(41 * HOUR, 70 * HOUR, HOUR), passed=1)
    assert stage.look(70 * HOUR) == ["firing"]


def test_evidence_is_older_than_the_window_that_is_shown() -> None:
    """At twenty results a day no window of six hours holds thirty."""
    stage = Stage(rule_of(BELOW))
    stage.see(range(0, 5 * DAY, 72), passed=1)
    stage.see(range(5 * DAY, 8 * DAY, 144), failed=1)
    stage.see(range(5 * DAY + 72, 8 * DAY, 144), passed=1)
    assert stage.look(8 * DAY) == ["firing"]
    (alert,) = stage.alerts
    assert alert.samples < 7
    assert alert.facts.since_ns == 5 * DAY * 60 * 10**9


def test_one_burst_is_no_fall_where_bursts_are_usual() -> None:
    """Each second day an hour at 30 %, which is 1 % of all: then one more is as usual."""
    stage = Stage(rule_of(BELOW))
    for day in range(8):
        stage.see(range(day * DAY, (day + 1) * DAY, 20), passed=33)
        if day % 2:
            stage.see(range(day * DAY + 600, day * DAY + 660, 5), failed=6)
    assert [stage.look(7 * DAY + 660 + minutes) for minutes in (0, 30, 600)] == [[], [], []]


def test_a_burst_counts_whole_when_its_hour_is_over_and_no_more_later_on() -> None:
    """Seventeen fails within a minute, at a series without history."""
    seen = []
    for minute in (2, 30, 59, 60, 119, 121, 600):
        stage = Stage(rule_of(BELOW | {"min_samples": 10}))
        stage.see(range(1), failed=17)
        seen.append(stage.look(minute))
    assert seen == [[], [], [], *[["firing"]] * 4]


@pytest.mark.parametrize("of", ["not_evaluable", "error"])
def test_shares_of_what_could_not_be_judged_are_watched_too(of: str) -> None:
    stage = days(3, rule_of({"above": 0.1, "of": of, "over": "6h"}), passed=20, failed=20)
    begin = 3 * DAY
    stage.see(range(begin, begin + 3 * HOUR, 10), passed=4, failed=4, not_evaluable=8)
    assert stage.look(begin + 3 * HOUR) == (["firing"] if of == "not_evaluable" else [])


@pytest.mark.parametrize(("sample", "fires"), [({"share": 0.05, "keep_failures": True}, []), ({}, ["firing"])])
def test_of_a_sample_that_keeps_every_fail_a_pass_stands_for_many(sample: dict[str, Any], fires: list[str]) -> None:
    """As many passes as fails are kept: of one in twenty passes, 95 % of all passed."""
    stage = Stage(rule_of(BELOW, **({"sample": sample} if sample else {})))
    stage.see(range(0, 3 * DAY, 20), passed=10, weight=20.0 if sample else 1.0)
    stage.see(range(0, 3 * DAY, 20), failed=10)
    assert stage.look(3 * DAY) == fires


def scores(*values: float) -> Tally:
    """Unsampled results with these scores, each a pass where it is 1."""
    passed = sum(value == 1 for value in values)
    failed = len(values) - passed
    squares = sum(value * value for value in values)
    return Tally.of(passed, failed, 0, 0, sum(values), squares)


@pytest.mark.parametrize(("values", "fires"), [((0.7, 0.7), ["firing"]), ((0.5, 0.9), ["firing"]), ((0.4, 1), [])])
def test_scores_that_lie_close_together_tell_more(values: tuple[float, float], fires: list[str]) -> None:
    """A mean of 0.7 against the bound 0.8, from four results an hour for a day."""
    stage = Stage(rule_of({"below": 0.8, "of": "order.score", "over": "6h"}))
    stage.put(range(0, DAY, 30), scores(*values), evaluation="order")
    assert stage.look(DAY) == fires


def test_results_from_before_the_sample_was_edited_weigh_as_they_were_kept() -> None:
    """60 passes and 10 fails of all, then of one in ten that passes, and every fail: 60 and 10.

    Together 60 + 600 passes and 20 fails: 660 / 680, whatever the rule says of its sample by now.
    """
    every = Tally.of(60, 10, 0, 0)
    both = total([every, every._replace(all_passed=600.0)])
    for sample in ({}, {"sample": {"share": 0.05, "keep_failures": True}}):
        measured = measure(rule_of(BELOW, **sample), Alert.model_validate(BELOW), both)
        assert measured is not None
        assert measured.value == pytest.approx(660 / 680)
