"""The tree of series that an alert looks at: all releases together, and each beside the others."""

from typing import Any

import pytest

from build import rest_long
from build.staged import DAY, Stage, rule_of
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.schema import MINUTE_NS

DROP = {"drop": {"against": "7d"}, "over": "1d"}
BELOW = {"below": 0.8, "over": "1d"}
WEEK = 7 * DAY


def week(*alerts: dict[str, Any], **place: Any) -> Stage:
    """A week at 90 %, 30 results each hour, of release 1.0 unless `place` says another."""
    stage = Stage(rule_of(*alerts or (DROP,)))
    stage.see(range(0, WEEK, 20), passed=9, failed=1, **place)
    return stage


def release(stage: Stage, name: str, first: int, last: int, share: float, every: int = 4) -> None:
    """Ten results each `every` minutes; `share` of them pass."""
    passed = round(10 * share)
    stage.see(range(WEEK + first, WEEK + last, every), passed=passed, failed=10 - passed, release=name)


def places(alerts: list[StoredAlert]) -> list[str | None]:
    return [alert.release for alert in alerts]


def looks(stage: Stage, first: int, last: int, every: int = 10) -> None:
    for minute in range(first, last + 1, every):
        stage.look(WEEK + minute)


def test_a_canary_is_named_though_all_together_hardly_fall() -> None:
    stage = week()
    release(stage, "1.0", 0, 180, 0.9, every=1)
    release(stage, "2.0", 0, 180, 0.4, every=10)
    looks(stage, 60, 180)
    assert places(stage.alerts) == ["2.0"]
    assert stage.alerts[0].facts.was == pytest.approx(0.9)


def test_what_all_releases_have_in_common_is_blamed_on_none() -> None:
    stage = week()
    for name in ("1.0", "2.0"):
        release(stage, name, 0, 120, 0.9)
        release(stage, name, 120, 300, 0.5)
    looks(stage, 120, 300)
    assert (places(stage.alerts), stage.earlier) == ([None], [])


def test_a_release_is_not_blamed_while_too_few_results_tell_whether_the_others_fell() -> None:
    """2.0 has 36 results: 72 % pass, nearer to 90 % than to 50 %, but that may well be chance."""
    stage = week()
    release(stage, "1.0", 0, 180, 0.5)
    stage.see(range(WEEK, WEEK + 180, 10), passed=1, release="2.0")
    stage.see(range(WEEK, WEEK + 80, 10), passed=1, release="2.0")
    stage.see(range(WEEK + 80, WEEK + 180, 10), failed=1, release="2.0")
    stage.look(WEEK + 180)
    assert places(stage.alerts) == [None]


def test_of_three_releases_the_one_that_fails_is_named() -> None:
    stage = week()
    for name, share in (("1.0", 0.9), ("2.0", 0.9), ("3.0", 0.4)):
        release(stage, name, 0, 180, share)
    looks(stage, 60, 180)
    assert places(stage.alerts) == ["3.0"]


def test_without_a_history_a_release_is_compared_with_the_one_beside_it() -> None:
    stage = Stage(rule_of(DROP))
    release(stage, "1.0", 0, 300, 0.9, every=1)
    release(stage, "2.0", 0, 300, 0.4, every=1)
    stage.look(WEEK + 300)
    assert places(stage.alerts) == ["2.0"]
    assert stage.alerts[0].facts.was == pytest.approx(0.9)


@pytest.mark.parametrize(("failing", "other"), [("", "1.0"), ("2.0", "")])
def test_results_that_name_no_release_are_one_beside_the_others(failing: str, other: str) -> None:
    stage = week(release=other or None)
    release(stage, other, 0, 180, 0.9)
    release(stage, failing, 0, 180, 0.4)
    looks(stage, 60, 180)
    assert places(stage.alerts) == [failing]
    release(stage, other, 180, 240, 0.9)
    looks(stage, 190, 240)
    assert stage.alerts == []
    by = f"release {other}" if other else "results without a release"
    assert stage.earlier[0].facts.ended_by == f"{by} replaced it"


def test_an_alert_of_all_releases_ends_when_the_one_to_blame_was_rolled_back() -> None:
    stage = week()
    release(stage, "2.0", 0, 120, 0.4)
    looks(stage, 10, 120)
    assert places(stage.alerts) == [None], "2.0 alone takes traffic: it is beside nobody"
    release(stage, "1.0", 120, 300, 0.9)
    assert stage.look(WEEK + 126) == ["firing"], "2.0 may still be sending"
    assert stage.look(WEEK + 127) == ["resolved"], "ten minutes after its last result"
    assert stage.earlier[0].facts.ended_by == "release 1.0 replaced 2.0"
    looks(stage, 140, 300)
    assert (stage.alerts, len(stage.earlier)) == ([], 1), "what 2.0 brought does not make anything fire again"


def test_nothing_fires_about_a_release_that_was_replaced_before() -> None:
    """The first look comes an hour after 2.0 sent its last result: beside 1.0, and in its place."""
    for beside in (True, False):
        stage = week()
        if beside:
            release(stage, "1.0", 0, 60, 0.9)
        release(stage, "2.0", 0, 60, 0.2)
        release(stage, "1.0", 60, 300, 0.9)
        looks(stage, 120, 300)
        assert (stage.alerts, stage.earlier) == ([], []), beside


def test_what_replaced_a_release_and_is_as_bad_fires() -> None:
    """Also where 2.0, which is gone, brought six of seven fails."""
    for beside in (True, False):
        stage = week()
        if beside:
            release(stage, "1.0", 0, 240, 0.9)
        release(stage, "2.0", 0, 240, 0.2)
        release(stage, "3.0", 240, 280, 0.2)
        stage.look(WEEK + 280)
        assert places(stage.alerts) == [None], beside


def test_what_fires_while_its_release_is_being_replaced_is_not_over_seconds_later() -> None:
    stage = week()
    release(stage, "1.0", 0, 180, 0.9)
    release(stage, "2.0", 0, 60, 0.2)
    assert stage.look(WEEK + 66) == ["firing"], "silent for nine minutes"
    for minute in range(67, 76):
        assert stage.look(WEEK + minute) == ["firing"], minute
    assert stage.look(WEEK + 76) == ["resolved"], "ten minutes after it began"


def test_a_bound_that_is_shown_over_a_longer_time_ends_with_the_release_too() -> None:
    stage = week(BELOW)
    release(stage, "2.0", 0, 40, 0.3)
    looks(stage, 10, 40)
    assert places(stage.alerts) == [None]
    assert stage.alerts[0].value > 0.8, "of a day"
    release(stage, "1.0", 40, 120, 0.9, every=1)
    looks(stage, 41, 51)
    assert [alert.facts.ended_by for alert in stage.earlier] == ["release 1.0 replaced 2.0"]


def test_the_release_to_blame_is_the_one_that_brought_more_that_is_bad_than_usual() -> None:
    """Of 540 fails 150 came of 1.0, as usual of 1,500 results; 2.0 had too few results to be named by itself."""
    stage = week(DROP | {"min_samples": 400})
    release(stage, "1.0", 0, 300, 0.9, every=2)
    release(stage, "2.0", 0, 300, 0.0, every=8)
    looks(stage, 100, 300)
    assert places(stage.alerts) == [None]
    release(stage, "1.0", 300, 400, 0.9, every=2)
    looks(stage, 310, 400)
    assert [alert.facts.ended_by for alert in stage.earlier] == ["release 1.0 replaced 2.0"]


def test_a_rolled_back_canary_leaves_nothing_that_fires() -> None:
    stage = week()
    release(stage, "1.0", 0, 600, 0.9)
    release(stage, "2.0", 0, 180, 0.2)
    looks(stage, 60, 180)
    assert places(stage.alerts) == ["2.0"]
    looks(stage, 190, 600)
    assert (stage.alerts, len(stage.earlier)) == ([], 1)
    assert stage.earlier[0].facts.end_reason == "superseded"


def test_a_release_that_is_replaced_by_one_as_bad_goes_on_until_a_better_one_comes() -> None:
    stage = week()
    release(stage, "1.0", 0, 180, 0.9)
    release(stage, "2.0", 0, 180, 0.4)
    looks(stage, 60, 180)
    assert places(stage.alerts) == ["2.0"]
    release(stage, "3.0", 180, 600, 0.4)
    for minute in range(190, 601, 10):
        stage.look(WEEK + minute)
        assert "2.0" in places(stage.alerts), minute
    assert set(places(stage.alerts)) == {None, "2.0"}
    release(stage, "4.0", 600, 1500, 0.9)
    looks(stage, 610, 1500, every=30)
    assert stage.alerts == []
    ends = [(alert.facts.ended_by, alert.ends_ns) for alert in stage.earlier]
    assert ends == [(f"release 4.0 replaced {which}", (WEEK + 610) * MINUTE_NS) for which in ("3.0", "it")]


def test_what_replaced_a_release_and_was_as_bad_may_recover_by_itself() -> None:
    stage = week()
    release(stage, "1.0", 0, 180, 0.9)
    release(stage, "2.0", 0, 180, 0.4)
    looks(stage, 60, 180)
    release(stage, "3.0", 180, 1200, 0.4)
    looks(stage, 190, 1200, every=30)
    assert set(places(stage.alerts)) == {None, "2.0"}
    release(stage, "3.0", 1200, 1900, 0.9)
    looks(stage, 1200, 1900, every=30)
    assert stage.alerts == []
    assert [alert.facts.end_reason for alert in stage.earlier] == ["recovered", "recovered"]


def test_a_release_of_few_results_is_not_gone_between_two_of_them() -> None:
    stage = week()
    release(stage, "1.0", 0, 2 * DAY, 0.9, every=5)
    stage.see(range(WEEK, WEEK + DAY, 20), failed=1, release="2.0")
    stage.see(range(WEEK + DAY + 120, WEEK + 2 * DAY, 20), failed=1, release="2.0")
    looks(stage, 700, 2 * DAY, every=45)
    assert (places(stage.alerts), stage.earlier) == (["2.0"], [])


def test_releases_that_always_differ_have_not_fallen() -> None:
    stage = week()
    stage.see(range(0, 2 * WEEK, 20), passed=9, failed=1)
    stage.see(range(0, 2 * WEEK, 20), passed=6, failed=4, release="batch")
    stage.look(2 * WEEK)
    assert stage.alerts == []
    stage.see(range(2 * WEEK, 2 * WEEK + 300, 4), passed=9, failed=1)
    stage.see(range(2 * WEEK, 2 * WEEK + 300, 4), passed=3, failed=7, release="batch")
    stage.look(2 * WEEK + 300)
    assert places(stage.alerts) == ["batch"]
    assert stage.alerts[0].facts.was == pytest.approx(0.6)


def test_releases_that_differ_and_fall_together_are_not_told_apart() -> None:
    stage = week()
    stage.see(range(0, 2 * WEEK, 20), passed=9, failed=1)
    stage.see(range(0, 2 * WEEK, 20), passed=6, failed=4, release="batch")
    stage.see(range(2 * WEEK, 2 * WEEK + 300, 4), passed=5, failed=5)
    stage.see(range(2 * WEEK, 2 * WEEK + 300, 4), passed=2, failed=8, release="batch")
    looks(stage, WEEK + 60, WEEK + 300)
    assert (places(stage.alerts), stage.earlier) == ([None], [])


@pytest.mark.parametrize("beside", [False, True])
def test_the_time_of_an_earlier_incident_is_no_history(beside: bool) -> None:
    """Half of the history was bad: so much is usual unless it is known to have been an incident."""
    stage = Stage(rule_of(DROP))
    for first, last, passed in ((0, 48, 9), (48, 144, 3), (144, 14 * 24, 9)):
        stage.see(range(60 * first, 60 * last, 20), passed=passed, failed=10 - passed)
    if beside:
        stage.see(range(0, 2 * WEEK + 300, 20), passed=9, failed=1, release="2.0")
    for hour in (54, 60, 150, 160, 14 * 24):
        stage.look(60 * hour)
    assert [(alert.facts.end_reason, alert.release) for alert in stage.earlier] == [
        ("recovered", "1.0" if beside else None)
    ]
    release(stage, "1.0", WEEK, WEEK + 300, 0.6)
    stage.look(2 * WEEK + 300)
    assert stage.alerts[0].facts.was == pytest.approx(0.9, abs=0.005)


def test_lost_coverage_is_told_for_all_releases_together() -> None:
    stage = week({"coverage": {"against": "7d"}, "over": "6h"})
    release(stage, "1.0", 0, 360, 0.9)
    stage.see(range(WEEK, WEEK + 360, 4), not_evaluable=30, release="2.0")
    looks(stage, 120, 360, every=60)
    assert places(stage.alerts) == [None]


def accept(stage: Stage, minute: int) -> None:
    stage.accepted = {alert.key for alert in stage.alerts}
    stage.look(WEEK + minute)
    assert {alert.facts.end_reason for alert in stage.earlier[-1:]} == {"accepted"}


def test_an_accepted_level_is_normal_for_two_weeks_and_a_further_fall_is_found() -> None:
    stage = week()
    release(stage, "1.0", 0, 600, 0.7)
    looks(stage, 60, 600)
    assert places(stage.alerts) == [None]
    accept(stage, 601)
    release(stage, "1.0", 600, 15 * DAY, 0.7, every=20)
    looks(stage, 660, 15 * DAY, every=360)
    assert (stage.alerts, len(stage.earlier)) == ([], 1)
    release(stage, "1.0", 15 * DAY, 15 * DAY + 300, 0.4)
    looks(stage, 15 * DAY + 60, 15 * DAY + 300)
    assert places(stage.alerts) == [None]
    assert stage.alerts[0].facts.was == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize("after", rest_long([400, 3 * DAY], [400]))
def test_the_accepted_level_of_a_canary_is_normal_when_it_takes_all_traffic(after: int) -> None:
    stage = week()
    release(stage, "1.0", 0, 300, 0.9)
    release(stage, "2.0", 0, 300, 0.6)
    looks(stage, 60, 300)
    assert places(stage.alerts) == ["2.0"]
    accept(stage, 301)
    release(stage, "2.0", 304, after, 0.6)
    looks(stage, 360, after, every=60)
    assert (stage.alerts, len(stage.earlier)) == ([], 1)
    release(stage, "2.0", after, after + 900, 0.3)
    looks(stage, after + 60, after + 900, every=60)
    assert places(stage.alerts) == [None]
    assert stage.alerts[0].facts.was == pytest.approx(0.6, abs=0.01)


def test_a_bound_and_a_drop_of_one_series_name_the_same_release() -> None:
    stage = week(DROP, BELOW)
    release(stage, "1.0", 0, 240, 0.9)
    release(stage, "2.0", 0, 240, 0.3)
    looks(stage, 60, 240)
    assert sorted((alert.kind, alert.release) for alert in stage.alerts) == [("below", "2.0"), ("drop", "2.0")]
    assert all(alert.facts.since_ns == WEEK * MINUTE_NS for alert in stage.alerts)
