"""``slo``: error budgets, worked by hand, and through `check`."""

import random
from typing import Any

import pytest

from build import each, rest_long
from build.staged import DAY, HourlyStage, Stage, rule_of
from tracegrade.alert.check import Before, check, slo_statuses
from tracegrade.alert.detect.burn import Budget, fires_after_s, pairs_of
from tracegrade.alert.notify.message import lines, summary
from tracegrade.rule.alert_forms import Slo
from tracegrade.store.schema import MINUTE_NS

SLO = {"slo": {"objective": 0.99}}
MONTH = 30 * DAY
NOW = MONTH + 7


def slo(objective: float = 0.99, window: str = "30d") -> Slo:
    return Slo.model_validate({"objective": objective, "window": window})


def quiet(rule: Any = None, until: int = NOW, **place: Any) -> Stage:
    """A month in which every ten minutes 100 results pass."""
    stage = Stage(rule or rule_of(SLO))
    stage.see(range(until - MONTH, until, 10), passed=100, **place)
    return stage


def budget(stage: Stage, minute: int) -> Budget:
    (found,) = slo_statuses(stage, [stage.rule], minute * MINUTE_NS)
    return found.budget


@each(
    ("window", "expected"),
    [
        ("30d", [(60, 5, 14.4), (360, 30, 6), (4320, 360, 1)]),
        ("7d", [(14, 2, 14.4), (84, 7, 6), (1008, 84, 1)]),
        ("90d", [(180, 15, 14.4), (1080, 90, 6), (12960, 1080, 1)]),
        ("1d", [(2, 1, 14.4), (12, 1, 6), (144, 12, 1)]),
        # An hour and a half is no whole number of minutes: 2.16 become 3, and the limit is lower by as much.
        ("26h", [(3, 1, 10.4), (13, 2, 6), (156, 13, 1)]),
    ],
)
def test_each_window_spends_the_same_parts_of_its_budget(window: str, expected: list[tuple[int, int, float]]) -> None:
    pairs = pairs_of(slo(window=window))
    assert [pair[1:] for pair in pairs] == [pytest.approx(pair) for pair in expected]
    assert [pair.part for pair in pairs] == [0.02, 0.05, 0.1]
    assert [pair.times * pair.long / (slo(window=window).window / 60) for pair in pairs] == pytest.approx(
        [0.02, 0.05, 0.1]
    )


def test_a_budget_is_what_the_objective_lets_fail() -> None:
    """Of 432,180 results 1 % may fail, 4,321.8; 180 of them did, all of them within the last 3 hours."""
    stage = quiet()
    stage.see(range(NOW - 180, NOW), failed=1)
    found = budget(stage, NOW)
    assert found.judged == 432_180
    assert found.left == pytest.approx(1 - 180 / 4321.8)
    rates = {burn.minutes: burn.rate for burn in found.burns}
    assert rates.keys() == {5, 30, 60, 360, 4320}
    assert rates[5] == pytest.approx(100), "nothing but fails"
    assert rates[60] == pytest.approx(100 * 60 / 660)


def test_what_is_left_lasts_for_as_long_as_the_present_rate_lets_it() -> None:
    """Nothing was spent before: at a burn rate of 10, 30 days of budget last for 3 days."""
    stage = quiet(until=NOW - 60)
    stage.see(range(NOW - 60, NOW, 10), passed=90, failed=10)
    found = budget(stage, NOW)
    assert found.burn(60).rate == pytest.approx(10)
    assert found.spent_in_s == pytest.approx(3 * 86_400, rel=0.1)
    stage.see(range(NOW - 20 * DAY, NOW - 10 * DAY, 10), failed=1)
    rest = budget(stage, NOW)
    assert rest.left == pytest.approx(2 / 3, abs=0.02)
    # In 30 days 10 budgets are spent, and the third of one that was spent before leaves the window.
    assert rest.spent_in_s == pytest.approx(30 * 86_400 * rest.left / (10 - 1 / 3), rel=0.01)
    stage = quiet(until=NOW - 60)
    stage.see(range(NOW - 60, NOW, 10), passed=199, failed=1)
    assert budget(stage, NOW).spent_in_s is None, "half as fast as it is allowed"
    stage.see(range(0, NOW - 60, 10), failed=5)
    overspent = budget(stage, NOW)
    assert overspent.left is not None
    assert overspent.left < 0
    assert overspent.spent_in_s == 0


def test_without_results_nothing_is_known_of_a_budget() -> None:
    stage = Stage(rule_of(SLO))
    stage.see(range(NOW - 60, NOW), not_evaluable=1)
    found = budget(stage, NOW)
    assert (found.left, found.spent_in_s, found.judged) == (None, None, 0)
    assert {burn.rate for burn in found.burns} == {None}
    assert stage.look(NOW) == []


def test_a_fast_burn_fires_says_what_is_left_and_is_over_once_the_last_minutes_are_fine() -> None:
    stage = quiet(until=NOW)
    stage.see(range(NOW, NOW + 50), passed=8, failed=2)
    assert stage.look(NOW + 5) == []
    fired = next(minute for minute in range(NOW + 5, NOW + 50) if stage.look(minute))
    (alert,) = stage.alerts
    assert (alert.kind, alert.release, alert.bound) == ("slo", None, pytest.approx(14.4))
    assert alert.value >= 14.4
    assert alert.facts.budget is not None
    assert alert.facts.budget.over_s == 3600
    assert alert.facts.since_ns == NOW * MINUTE_NS
    assert alert.facts.by_chance_every_s is None
    assert summary(alert) == (
        "one at shop, agent support: "
        "error budget (99% over 30 days) spent 16.1 times as fast as allowed: 82 of 510 failed in 1 hour"
    )
    assert "Error budget: 98.1% left, used up in 44 hours at this rate" in lines(alert)
    stage.see(range(NOW + 50, NOW + 120), passed=10)
    assert stage.look(NOW + 51) == ["firing"]
    assert stage.look(NOW + 55) == ["firing"], "the last half hour still burns"
    over = next(minute for minute in range(NOW + 55, NOW + 120) if stage.look(minute) == ["resolved"])
    assert over > fired
    (ended,) = stage.earlier
    assert ended.value < 6
    assert summary(ended).endswith(": spending slowed to 5.3 times as fast as allowed, from 16.1")
    assert stage.look(over + 1) == []


def test_a_slow_burn_fires_too() -> None:
    """1.5 % fail in place of 1 %, after a month without fails: a tenth of the budget is spent within two days."""
    stage = quiet()
    stage.see(range(NOW, NOW + 3 * DAY, 60), passed=197, failed=3)
    assert stage.look(NOW + DAY) == []
    assert stage.look(NOW + 3 * DAY - 60) == ["firing"]
    assert stage.alerts[0].bound == pytest.approx(1)


def test_what_the_budget_allows_does_not_fire() -> None:
    stage = quiet()
    stage.see(range(NOW, NOW + 3 * DAY, 60), passed=1988, failed=12)
    assert [stage.look(NOW + hour * 60) for hour in range(1, 72, 5)] == [[]] * 15


def test_few_results_do_not_fire() -> None:
    stage = Stage(rule_of({**SLO, "min_samples": 10}))
    stage.see(range(NOW - 9, NOW), failed=1)
    assert stage.look(NOW) == []
    stage.see(range(NOW, NOW + 1), failed=1)
    assert stage.look(NOW + 1) == ["firing"]


def test_a_burst_that_is_over_does_not_fire() -> None:
    """15 of the last 100 failed, all of them more than 5 minutes ago."""
    stage = quiet(until=NOW - 60)
    stage.see(range(NOW - 30, NOW - 15), passed=3, failed=1)
    stage.see(range(NOW - 15, NOW), passed=2)
    assert budget(stage, NOW).burn(60).rate == pytest.approx(100 * 15 / 90)
    assert stage.look(NOW) == []


def test_silence_is_no_recovery() -> None:
    stage = quiet()
    stage.stale_after_s = 86_400.0
    stage.see(range(NOW, NOW + 60), failed=2)
    assert stage.look(NOW + 60) == ["firing"]
    for minute in (70, 120, 300, 600, 1440):
        assert stage.look(NOW + minute) == ["firing"], minute
    assert stage.look(NOW + 60 + DAY) == ["resolved"]
    assert stage.earlier[0].facts.ended_by == "no results came for 1 day"


def test_where_few_results_come_it_is_over_after_hours_without_a_fail() -> None:
    """One result every two hours: the last half hour has none, and the last 6 hours tell."""
    stage = Stage(rule_of({"slo": {"objective": 0.9}, "min_samples": 10}))
    stage.see(range(NOW - 2 * DAY, NOW, 120), passed=1)
    stage.see(range(NOW, NOW + DAY, 120), failed=1)
    assert stage.look(NOW + DAY) == ["firing"]
    stage.see(range(NOW + DAY, NOW + 2 * DAY, 120), passed=1)
    assert stage.look(NOW + DAY + 200) == ["firing"], "of the last three results one failed"
    stage.see(range(NOW + 2 * DAY, NOW + 9 * DAY, 120), passed=1)
    assert stage.look(NOW + 4 * DAY + 60) == ["resolved"]
    assert stage.earlier[0].facts.budget is not None
    assert stage.earlier[0].facts.budget.over_s == 6 * 3600


def test_it_is_told_since_when_the_budget_burns_though_a_few_failed_before() -> None:
    stage = quiet()
    stage.see(range(NOW - 3 * DAY, NOW, 10), failed=1)
    stage.see(range(NOW, NOW + 60, 10), passed=60, failed=40)
    assert stage.look(NOW + 60) == ["firing"]
    assert stage.alerts[0].facts.since_ns == NOW * MINUTE_NS


def test_all_releases_of_an_agent_have_one_budget_and_other_agents_their_own() -> None:
    stage = quiet(release="1.0")
    stage.see(range(NOW - MONTH, NOW, 60), passed=100, agent="other")
    stage.see(range(NOW - 60, NOW), passed=1, failed=5, release="2.0")
    found = slo_statuses(stage, [stage.rule], NOW * MINUTE_NS)
    left = {item.place[-1]: item.budget.left for item in found}
    assert left == {"support": pytest.approx(1 - 300 / 4323.6), "other": 1}
    assert stage.look(NOW) == ["firing"]
    assert [(alert.agent, alert.release) for alert in stage.alerts] == [("support", None)]


def test_a_sample_that_keeps_every_fail_has_the_budget_of_all_results() -> None:
    """Of 20 passes one is kept and every fail: 95 of 2,000 fail, 4.75 %, and not nearly half of what is kept."""
    stage = Stage(rule_of({"slo": {"objective": 0.9}}, sample={"share": 0.05, "keep_failures": True}))
    stage.see(range(NOW - 60, NOW), passed=1, weight=20.0)
    stage.see(range(NOW - 60, NOW), failed=1)
    found = budget(stage, NOW)
    assert found.judged == 120
    assert found.left == pytest.approx(1 - (1 / 21) / 0.1)
    assert stage.look(NOW) == []
    stage.see(range(NOW - 60, NOW), failed=1, weight=2.0)
    assert budget(stage, NOW).left == pytest.approx(1 - (3 / 23) / 0.1), "a fail that stands for two"


def test_an_hour_of_which_a_part_lies_within_a_time_counts_in_part() -> None:
    """6 hours before 12:30 is 6:30: of the hour that begins at 6:00, half of the 40 fails count."""
    noon = MONTH + 12 * 60 + 30
    stage = HourlyStage(rule_of(SLO))
    stage.see(range(MONTH + 6 * 60, MONTH + 6 * 60 + 1), failed=40)
    stage.see(range(noon - 60, noon), passed=3)
    assert budget(stage, noon).burn(360).rate == pytest.approx(100 * 20 / 200)


@each(
    ("objective", "fails", "minutes"),
    [
        (0.99, 1.0, 8.64),  # 14.4 % of an hour
        (0.99, 0.07, 308.57),  # 6 / 7 of 6 h
        (0.99, 0.02, 2160),  # half of 3 days
        (0.99, 0.009, None),
        (0.9, 1.0, 216),  # the fast pair asks for more fails than there can be
        (0.8, 1.0, 864),
    ],
)
def test_when_it_fires_is_known_beforehand(objective: float, fails: float, minutes: float | None) -> None:
    found = fires_after_s(slo(objective), fails)
    assert (found and found / 60) == (minutes and pytest.approx(minutes, abs=0.01))


@pytest.mark.parametrize("fails", rest_long([1.0, 0.2, 0.07, 0.02], [0.2]))
def test_it_fires_when_it_was_said_to(fails: float) -> None:
    """20 results each minute, a month without fails before."""
    expected = fires_after_s(slo(), fails)
    assert expected is not None
    length = int(expected / 60 * 1.2) + 60
    stage = Stage(rule_of(SLO))
    chance = random.Random(5)
    stage.see(range(NOW - 3 * DAY, NOW), passed=20)
    for minute in range(NOW, NOW + length):
        failed = sum(chance.random() < fails for _ in range(20))
        stage.see(range(minute, minute + 1), passed=20 - failed, failed=failed)
    looks = range(NOW, NOW + length, max(1, length // 50))
    fired = next(minute for minute in looks if check(stage, [stage.rule], Before(), minute * MINUTE_NS).open)
    assert fired - NOW == pytest.approx(expected / 60, rel=0.15, abs=3)
