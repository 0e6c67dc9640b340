"""``above`` and ``rise`` of tokens, cost and duration through `check`."""

from math import exp, sqrt
from random import Random
from typing import Any

import pytest
from bench.value_rates import Values, changes, look_for_rise

from build import rest_long
from build.staged import DAY, Stage, rule_of
from tracegrade.alert.detect.mean import usual_value_of, without_high_quarters
from tracegrade.alert.detect.moments import Moments, correlation, hourly
from tracegrade.alert.detect.steps import values_of
from tracegrade.alert.notify.message import lines, summary
from tracegrade.model.tally import Tally, total
from tracegrade.store.history import Bin
from tracegrade.store.schema import MINUTE_NS

ABOVE = {"above": 20_000, "of": "tokens"}
RISE = {"rise": {"against": "7d", "by": "30 %"}, "of": "tokens"}
WEEK = 7 * DAY


def outcomes(values: list[float], unknown: int = 0, weight: float = 1.0) -> Tally:
    return Tally.of(len(values), 0, unknown, 0, sum(values), sum(value * value for value in values), weight=weight)


def put(stage: Stage, minutes: range, values: list[float], weight: float = 1.0, **place: Any) -> None:
    """The same values in each of the minutes."""
    of = stage.rule.alert[0].of
    stage.put(minutes, outcomes(values, weight=weight), **{"evaluation": of} | place)


SPREAD = [0.4, 0.7, 1.0, 1.3, 1.6]


def around(mean: float) -> list[float]:
    return [mean * part for part in SPREAD]


def test_a_mean_above_its_bound_fires_says_what_it_is_and_is_over_when_it_is_back() -> None:
    stage = Stage(rule_of(ABOVE))
    put(stage, range(0, 300, 10), around(15_000))
    assert stage.look(300) == []
    put(stage, range(300, 600, 10), around(30_000))
    assert stage.look(600) == ["firing"]
    (alert,) = stage.alerts
    assert "mean tokens 22,500 is above 20,000 (300 results in 1 day)" in summary(alert)
    assert alert.facts.since_ns == 300 * MINUTE_NS
    assert "Value: 22,500 of 300 results, between 20,814 and 24,186; chance alone" in " ".join(lines(alert))
    put(stage, range(600, 620, 10), around(15_000))
    assert stage.look(620) == ["firing"], "ten results do not say that it is over"
    put(stage, range(620, 2000, 10), around(15_000))
    assert stage.look(2000) == ["resolved"]
    assert "mean tokens recovered from 22,500 to 15,000 (" in summary(stage.earlier[0])
    assert stage.look(2001) == []


def test_a_mean_at_its_bound_does_not_fire_and_one_that_stays_above_fires_once() -> None:
    stage = Stage(rule_of(ABOVE))
    put(stage, range(0, 2 * WEEK, 30), around(20_000))
    assert all(stage.look(day * DAY) == [] for day in range(1, 14))
    high = Stage(rule_of(ABOVE))
    put(high, range(0, 3 * WEEK, 30), around(22_000))
    states = [high.look(day * DAY) for day in range(1, 21)]
    assert states[-1] == ["firing"]
    assert not any("resolved" in state for state in states)


def test_a_few_large_values_are_no_higher_mean() -> None:
    """A mean of 48,000, from one value in a hundred that is as large as 400 others."""
    stage = Stage(rule_of(ABOVE))
    put(stage, range(0, 300, 3), [8_000])
    put(stage, range(100, 101), [4_000_000])
    assert stage.look(300) == []
    assert stage.alerts == []


@pytest.mark.parametrize(("known", "unknown", "fires"), [(29, 500, []), (30, 500, ["firing"]), (0, 500, [])])
def test_what_is_not_known_counts_for_nothing(known: int, unknown: int, fires: list[str]) -> None:
    stage = Stage(rule_of(ABOVE))
    put(stage, range(0, known * 60, 60), [200_000.0])
    stage.put(range(1), outcomes([], unknown), evaluation="tokens")
    assert stage.look(30 * 60) == fires


def test_a_mean_is_compared_by_the_weights_of_a_sample() -> None:
    """Kept fails use 100,000 tokens and stand for themselves; kept passes use 1,000 and stand for ten."""
    rule = rule_of(ABOVE, sample={"share": 0.1, "keep_failures": True})
    stage = Stage(rule)
    for minute in range(0, 600, 2):
        put(stage, range(minute, minute + 1), [100_000.0])
        put(stage, range(minute, minute + 1), [1_000.0], weight=10.0)
    assert stage.look(600) == [], "the mean of all is 10,000"
    put(stage, range(600, 1200, 2), [100_000.0], weight=10.0)
    assert stage.look(1200) == ["firing"]


def test_a_cost_and_a_duration_are_shown_as_what_they_are() -> None:
    cost = Stage(rule_of({"above": 0.05, "of": "cost"}))
    put(cost, range(0, 300, 5), around(0.42))
    assert cost.look(300) == ["firing"]
    assert "mean cost 0.42 is above 0.05 (" in summary(cost.alerts[0])
    slow = Stage(rule_of({"above": 90, "of": "duration"}))
    put(slow, range(0, 300, 5), around(200))
    assert slow.look(300) == ["firing"]
    assert "mean duration 3m 20s is above 1m 30s (" in summary(slow.alerts[0])


def test_resolve_at_is_what_a_mean_must_come_back_to() -> None:
    stage = Stage(rule_of({**ABOVE, "resolve_at": 10_000}))
    put(stage, range(0, 300, 5), around(30_000))
    assert stage.look(300) == ["firing"]
    put(stage, range(300, 4000, 5), around(15_000))
    assert stage.look(4000) == ["firing"]
    put(stage, range(4000, 8000, 5), around(5_000))
    assert stage.look(8000) == ["resolved"]


def week(alert: dict[str, Any] = RISE, **place: Any) -> Stage:
    stage = Stage(rule_of(alert))
    put(stage, range(0, WEEK, 60), around(10_000) * 2, **place)
    return stage


def test_a_rise_fires_says_from_where_to_where_and_is_over_when_it_has_fallen() -> None:
    stage = week()
    put(stage, range(WEEK, WEEK + 300, 10), around(10_000))
    assert stage.look(WEEK + 300) == []
    put(stage, range(WEEK + 300, WEEK + 900, 10), around(16_000))
    assert stage.look(WEEK + 900) == ["firing"]
    (alert,) = stage.alerts
    assert "mean tokens rose from 10,000 to 16,000 (300 results)" in summary(alert)
    assert alert.facts.was == pytest.approx(10_000)
    assert alert.bound == pytest.approx(13_000)
    assert alert.facts.since_ns == (WEEK + 300) * MINUTE_NS
    put(stage, range(WEEK + 900, WEEK + 4000, 10), around(10_000))
    assert stage.look(WEEK + 4000) == ["resolved"]
    assert "mean tokens recovered from 16,000 to 10,000 (" in summary(stage.earlier[0])


def test_a_rise_of_half_of_by_is_no_rise() -> None:
    stage = week()
    put(stage, range(WEEK, 2 * WEEK, 10), around(11_500))
    assert all(stage.look(WEEK + day * DAY) == [] for day in range(1, 8))


def test_a_rise_that_stays_fires_once_and_its_baseline_does_not_creep() -> None:
    stage = week()
    put(stage, range(WEEK, 4 * WEEK, 60), around(16_000) * 2)
    for day in range(2, 20):
        assert stage.look(WEEK + day * DAY) == ["firing"], day
        assert stage.alerts[0].facts.was == pytest.approx(10_000)


def test_without_a_history_nobody_can_tell_a_rise() -> None:
    stage = Stage(rule_of(RISE))
    put(stage, range(0, 600, 10), around(16_000))
    assert stage.look(600) == []


def test_a_mean_that_goes_up_each_day_is_no_rise() -> None:
    """From 08:00 to 16:00 UTC three times as many tokens, by as many results as in the rest of the day."""
    stage = Stage(rule_of(RISE))
    chance = Random(3)
    for hour in range(0, 21 * 24):
        mean = 30_000 if 8 <= hour % 24 < 16 else 10_000
        values = [mean * exp(0.5 * chance.gauss(0, 1) - 0.125) for _ in range(20)]
        put(stage, range(hour * 60, hour * 60 + 1), values)
    for hour in range(14 * 24, 21 * 24, 2):
        assert stage.look(hour * 60) == [], hour


def test_an_earlier_incident_is_no_baseline() -> None:
    stage = Stage(rule_of(RISE))
    put(stage, range(0, WEEK, 60), around(10_000) * 2)
    put(stage, range(3 * DAY, 4 * DAY, 60), around(90_000) * 2)
    put(stage, range(WEEK, 2 * WEEK, 60), around(10_000) * 2)
    put(stage, range(2 * WEEK, 2 * WEEK + 600, 10), around(15_000))
    assert stage.look(2 * WEEK + 600) == ["firing"]
    assert stage.alerts[0].facts.was == pytest.approx(10_000)


@pytest.mark.parametrize(("others", "fires"), [(10_000, "2.0"), (16_000, None)])
def test_a_release_that_rose_beside_others_is_named_unless_they_rose_too(others: int, fires: str | None) -> None:
    stage = week()
    put(stage, range(WEEK, WEEK + DAY, 10), around(others))
    put(stage, range(WEEK, WEEK + DAY, 30), around(16_000), release="2.0")
    assert stage.look(WEEK + DAY) == ["firing"]
    assert [alert.release for alert in stage.alerts] == [fires]


@pytest.mark.parametrize(("after", "state"), [(12_000, "resolved"), (28_000, "firing")])
def test_the_next_release_ends_it_if_its_mean_is_good(after: int, state: str) -> None:
    stage = Stage(rule_of(ABOVE))
    put(stage, range(0, 300, 5), around(30_000))
    assert stage.look(300) == ["firing"]
    put(stage, range(300, 330), around(after)[1:4], release="2.0")
    assert stage.look(330) == [state]
    assert [alert.facts.end_reason for alert in stage.earlier] == (["superseded"] if state == "resolved" else [])


def test_values_of_a_sample_count_by_their_weight_and_none_for_more_than_one() -> None:
    """Nine kept fails and one kept pass, which stands for ten: as 1.9 values, of which the pass is one."""
    rule = rule_of(ABOVE, sample={"share": 0.1, "keep_failures": True})
    both = total([outcomes([3.0] * 9), outcomes([5.0], weight=10.0)])
    (found,) = values_of(rule, [Bin(0, 60, both)], 60)
    assert found[2:] == pytest.approx((0.9 + 1, 2.7 + 5, 8.1 + 25))
    (whole,) = values_of(rule_of(ABOVE), [Bin(0, 60, outcomes([3.0, 5.0]))], 60)
    assert whole[2:] == (2, 8, 34)


MONTHS = [Values(0.7, 1000, season=0.5, swing=20), Values(1.5, 200), Values(0.3, 1000, bursts=0.5)]


@pytest.mark.parametrize("values", rest_long(MONTHS, MONTHS[:1]))
def test_a_month_of_heavy_tails_seasons_and_bursts_raises_no_alarm(values: Values) -> None:
    """At most one alarm a month is promised on average; the benchmark counts them over longer times."""
    steps = values.steps(44, Random(7))
    assert [change for change in changes(steps, look_for_rise, every=180) if change.fires] == []


def hours(count: int, values: int, mean: float = 1.0, spread: float = 0.7, bursts: float = 0.0) -> list[Moments]:
    chance = Random(1)
    found = []
    for hour in range(count):
        own = mean * exp(bursts * chance.gauss(0, 1) - bursts**2 / 2)
        some = [own * exp(spread * chance.gauss(0, 1) - spread**2 / 2) for _ in range(values)]
        found.append(Moments(hour * 60, 60, values, sum(some), sum(value * value for value in some)))
    return found


def test_the_usual_mean_has_an_upper_bound_that_comes_closer_with_more_values() -> None:
    few, many = (usual_value_of(hours(168, values)) for values in (2, 50))
    assert few is not None
    assert many is not None
    assert few.high - few.mean > 3 * (many.high - many.mean)
    assert many.mean < many.high
    assert many.mean == pytest.approx(1.0, abs=0.05)


def test_without_values_or_with_zeros_alone_nothing_is_usual() -> None:
    assert usual_value_of([]) is None
    assert usual_value_of([Moments(0, 60, 50, 0.0, 0.0)]) is None


@pytest.mark.parametrize(("spread", "bursts"), [(0.3, 0.5), (0.0, 0.5), (0.7, 0.2)])
def test_the_correlation_within_hours_is_found_however_strong(spread: float, bursts: float) -> None:
    between, all_of_it = exp(bursts**2) - 1, exp(bursts**2 + spread**2) - 1
    found = correlation(hourly(hours(168, 80, spread=spread, bursts=bursts)))
    assert found == pytest.approx(between / all_of_it, rel=0.35)


def test_one_large_value_is_no_incident_and_a_bad_day_is() -> None:
    parts = hours(168, 20)
    lone = [*parts]
    minute, minutes, count, total, squares = parts[50]
    lone[50] = Moments(minute, minutes, count + 1, total + 2000, squares + 2000**2)
    assert without_high_quarters(lone, 0.3) == lone
    bad = [
        part if part.minute // 1440 != 3 else part._replace(total=part.total * 5, squares=part.squares * 25)
        for part in parts
    ]
    left = without_high_quarters(bad, 0.3)
    assert {part.minute // 1440 for part in left} == {0, 1, 2, 4, 5, 6}
    usual = usual_value_of(left)
    assert usual is not None
    assert usual.mean == pytest.approx(1.0, abs=4 * sqrt(0.64 / (140 * 20)))
