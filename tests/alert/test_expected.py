"""How soon an alert is expected to fire, against simulations and the store."""

import random
from typing import Any

import pytest
from bench.alert_rates import delay
from bench.alert_traffic import Traffic
from bench.value_rates import Values, changes, look_for_rise

from alert.detect.test_mean import put
from build import rest_long
from build.staged import DAY, Stage, rule_of
from tracegrade.alert.detect.mean import UsualValue
from tracegrade.alert.detect.usual import Usual
from tracegrade.alert.expected import expected, minutes_until_found, stated_volume, stored_volume
from tracegrade.alert.outlook import Volume
from tracegrade.alert.wording import expectation_text
from tracegrade.rule.alert import Alert
from tracegrade.store.history import Window
from tracegrade.store.schema import MINUTE_NS


def alert(**fields: Any) -> Alert:
    return Alert.model_validate(fields or {"drop": {"against": "7d"}})


def said_of(alert: Alert, volume: Volume | None) -> str:
    found = expected(alert, volume)
    assert found is not None
    return expectation_text(found)


@pytest.mark.parametrize("size", rest_long([0.2, 0.4], [0.4]))
def test_a_fall_is_found_about_when_it_is_expected(size: float) -> None:
    """2,000 results a day, 83 an hour; the dispersion of independent results is assumed to be higher than it is."""
    minutes = minutes_until_found(alert(), stated_volume(2000, alert()), size)
    assert minutes is not None
    found = delay(Traffic(0.95, 2000, fall=size), 1, 8, random.Random(3))
    assert found.ours / 2 < minutes * 2000 / DAY < found.ours * 2.5


def test_more_results_and_larger_falls_are_found_sooner() -> None:
    found = [
        [minutes_until_found(alert(), stated_volume(a_day, alert()), by) for by in (0.2, 0.4)] for a_day in (100, 2000)
    ]
    (few_small, few_large), (many_small, many_large) = found
    assert None not in (few_small, few_large, many_small, many_large)
    assert few_small > few_large > many_large  # type: ignore[operator]
    assert few_small > many_small > many_large  # type: ignore[operator]


def test_what_cannot_be_found_while_results_are_evidence_is_said_to_be_so() -> None:
    said = said_of(alert(), stated_volume(5, alert()))
    assert said == (
        "At 5 results a day of one agent, of which 95% pass, it fires after about 5.8 days when the pass rate falls by "
        "20 points, but not in time when the pass rate falls by 10 points; at most 1 false alarm a month."
    )


def test_of_a_bound_two_distances_from_it_are_named() -> None:
    below = alert(below=0.9)
    said = said_of(below, stated_volume(2000, below))
    assert said.startswith("At 2,000 results a day of one agent, it fires after about ")
    for points in (5, 10):
        assert f" when the pass rate is {points} points past the bound" in said


def test_without_results_and_a_stated_volume_it_is_unknown() -> None:
    assert said_of(alert(), None) == (
        "How soon it fires is unknown, without stored results or --volume; at most 1 false alarm a month."
    )


@pytest.mark.parametrize("coverage", [{"against": "7d"}, {"silent": "30m"}])
def test_lost_coverage_has_no_size(coverage: dict[str, str]) -> None:
    assert expected(alert(coverage=coverage), stated_volume(500, alert())) is None


def test_an_objective_says_when_it_fires_at_any_volume() -> None:
    """14.4 % of an hour, and half of 3 days; at 80 %, all fails burn 5 times too fast: a fifth of 3 days."""
    strict, lax = (alert(slo={"objective": objective}) for objective in (0.99, 0.8))
    assert said_of(strict, None) == (
        "Where nothing failed before, it fires after about 9 minutes when 100% fail and "
        "after about 36 hours when 2% fail."
    )
    assert "after about 14 hours when 100% fail" in said_of(lax, None)
    assert "%" in said_of(alert(slo={"objective": 0.4}), None)
    assert "when 120% fail" not in said_of(alert(slo={"objective": 0.4}), None)


def test_false_alarms_a_month_are_those_that_are_promised_at_any_volume() -> None:
    weekly = alert(below=0.9, false_alarm_every="7d")
    for a_day in (5, 5000):
        found = expected(weekly, stated_volume(a_day, weekly))
        assert found is not None
        assert found.false_alarms_a_month == pytest.approx(30 / 7)
    assert said_of(weekly, None).endswith("at most 4.3 false alarms a month.")


def test_the_volume_of_the_store_is_that_of_its_middle_series() -> None:
    stage = Stage(rule_of({"drop": {"against": "7d"}}))
    for agent, passed in (("a", 1), ("b", 9), ("c", 90)):
        stage.see(range(0, 7 * DAY, 60), passed=passed, failed=passed, agent=agent)
    bins = stage.bins("one", Window("", 0, 7 * DAY * MINUTE_NS, False))
    volume = stored_volume(rule_of(), alert(), bins, 7 * DAY)
    assert volume is not None
    assert volume.a_day == pytest.approx(18 * 24)
    assert isinstance(volume.usual, Usual)
    assert volume.usual.share == pytest.approx(0.5)
    assert stored_volume(rule_of(), alert(), {}, 7 * DAY) is None


def test_the_volume_of_a_young_series_is_that_since_its_first_result() -> None:
    stage = Stage(rule_of({"below": 0.9}))
    stage.see(range(7 * DAY - 20, 7 * DAY), passed=10, failed=1)
    bins = stage.bins("one", Window("", 0, 7 * DAY * MINUTE_NS, False))
    volume = stored_volume(rule_of(), alert(below=0.9), bins, 7 * DAY)
    assert volume is not None
    assert volume.a_day == pytest.approx(220 * 24), "220 within the last hour, and nothing is known of those before"


RISE = {"rise": {"against": "7d", "by": "30 %"}, "of": "tokens"}


def test_a_rise_and_a_mean_above_its_bound_are_found_the_sooner_the_more_results_come() -> None:
    rise, above = alert(**RISE), alert(above=20_000, of="tokens")
    said = said_of(rise, stated_volume(2000, rise))
    assert said.startswith("At 2,000 results a day of one agent, it fires after about ")
    for part in ("30%", "60%"):
        assert f" when the mean rises by {part}" in said
    assert " when the mean is 20% above the bound" in said_of(above, stated_volume(2000, above))
    for one, sizes in ((rise, (0.3, 0.6)), (above, (0.2, 0.5))):
        found = [minutes_until_found(one, stated_volume(a_day, one), size) for a_day in (500, 5000) for size in sizes]
        assert None not in found[1:]
        slow_small, slow_large, small, large = (minutes or 10**6 for minutes in found)
        assert large < small < slow_small
        assert large < slow_large < slow_small


def test_a_rise_is_found_about_when_it_is_expected() -> None:
    values = Values(0.83, 2000, rise=0.6, rises_on=14)  # they differ by as much as their mean
    rise = alert(**RISE)
    minutes = minutes_until_found(rise, stated_volume(2000, rise), 0.6)
    assert minutes is not None
    found = []
    for seed in range(2):
        seen = changes(values.steps(18, random.Random(seed)), look_for_rise, 14)
        found.append(next(change.minute for change in seen if change.fires) - 14 * DAY)
    usual = sum(found) / len(found)
    assert usual / 2 < minutes < 2.5 * usual, "values are taken to depend on each other more than these do"


def test_the_volume_of_values_is_that_of_the_store() -> None:
    stage = Stage(rule_of(RISE))
    put(stage, range(0, 7 * DAY, 60), [5_000.0, 15_000.0])
    bins = stage.bins("one", Window("tokens", 0, 7 * DAY * MINUTE_NS, False))
    volume = stored_volume(stage.rule, alert(**RISE), bins, 7 * DAY)
    assert volume is not None
    assert volume.a_day == pytest.approx(48)
    assert isinstance(volume.usual, UsualValue)
    assert volume.usual.mean == pytest.approx(10_000)
