"""Findings that are kept between checks: they are what a check without any would find, and are given up in time."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from build.staged import DAY, HourlyStage, rule_of
from tracegrade.alert.check import Before, Checked, Ending, check
from tracegrade.alert.findings_cache import FindingsCache, Found
from tracegrade.alert.preview import preview
from tracegrade.model.tally import Tally
from tracegrade.rule.rule import Rule
from tracegrade.store.schema import MINUTE_NS

START = 100 * DAY
ALERTS: list[dict[str, Any]] = [
    {"below": 0.7, "over": "1h", "min_samples": 5},
    {"below": 0.7, "of": "order.score", "over": "2h", "min_samples": 5},
    {"drop": {"against": "1d"}, "min_samples": 5},
    {"coverage": {"against": "1d"}, "over": "90m", "min_samples": 5},
    {"coverage": {"silent": "2h"}, "min_samples": 5},
    {"slo": {"objective": 0.9, "window": "7d"}, "min_samples": 5},
    {"above": 0.3, "of": "error", "over": "10m", "min_samples": 5},
    {"above": 3000, "of": "tokens", "over": "1h", "min_samples": 5},
]
RULES = [rule_of(*ALERTS), rule_of(*ALERTS, sample=0.5), rule_of(*(item | {"min_samples": 9} for item in ALERTS))]

places = st.fixed_dictionaries({"agent": st.sampled_from(["a", "b"]), "release": st.sampled_from(["1.0", "1.1"])})
counts = st.integers(min_value=0, max_value=20)


class KeepingStage(HourlyStage):
    """Makes each check twice: with what is kept from the one before, and without."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self.kept = FindingsCache()

    def came(self, minutes: range, passed: int, failed: int, not_evaluable: int = 0, **place: Any) -> None:
        self.see(minutes, passed, failed, not_evaluable, **place)
        scores = Tally.of(passed, failed, 0, 0, passed + 0.5 * failed, passed + 0.25 * failed)
        self.put(minutes, scores, evaluation="order", **place)
        tokens = 1000.0 * passed + 9000.0 * failed
        values = Tally.of(passed + failed, 0, 0, 0, tokens, 1000000.0 * passed + 81000000.0 * failed)
        self.put(minutes, values, evaluation="tokens", **place)

    def check(self, minute: int) -> None:
        """Twice: what the first check tells changes what the second one sees, and no results come between them."""
        for _ in range(2):
            before = Before(self.alerts, self.earlier, accepted=frozenset(self.accepted))
            about = self, [self.rule], before, minute * MINUTE_NS, Ending(600, 86_400)
            found = check(*about, self.kept)
            assert_equal(found, check(*about))
            self.alerts = found.open
            self.earlier += found.resolved


def assert_equal(found: Checked, fresh: Checked) -> None:
    assert found.open == fresh.open
    assert found.resolved == fresh.resolved
    assert found.not_fired == fresh.not_fired
    assert found.slos == fresh.slos


def filled(hours: int = 40) -> KeepingStage:
    stage = KeepingStage(RULES[0])
    for release, first in (("1.0", -hours * 60), ("1.1", -6 * 60)):
        for minute in range(START + first, START, 20):
            stage.came(range(minute, minute + 1), 6, minute // 20 % 7 == 0, agent="a", release=release)
    return stage


actions = st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([0, 1, 2, 17, 61, -5])),
    st.tuples(st.just("came"), st.integers(0, 4), counts, counts, counts, places),
    st.tuples(st.just("late"), st.integers(5, 36 * 60), counts, counts, counts, places),
    st.tuples(st.just("backfill"), st.integers(0, 100), places),
    st.tuples(st.just("fail"), st.integers(10, 150), places),
    st.tuples(st.just("traces"), st.integers(0, 90)),
    st.tuples(st.just("restart")),
    st.tuples(st.just("reload"), st.sampled_from(RULES)),
    st.tuples(st.just("accept")),
)


def do(stage: KeepingStage, now: int, action: tuple[Any, ...]) -> int:
    """The minute of the next check."""
    match action:
        case ("pass", minutes):
            return now + int(minutes)
        case ("came" | "late", ago, *counted, place):
            stage.came(range(now - ago, now - ago + 1), *counted, **place)
        case ("backfill", passed, place):
            stage.judge_afterwards(range(now - 2 * DAY, now - DAY - 60, 30), passed, 100 - passed, **place)
        case ("fail", minutes, place):
            stage.came(range(now, now + minutes, 2), 0, 9, **place)
            return now + int(minutes)
        case ("traces", ago):
            stage.see(range(now - ago, now - ago + 1), traces=30, agent="unwatched", evaluation="unwatched")
        case ("restart",):
            stage.kept = FindingsCache()
        case ("reload", rule):
            stage.rule = rule.model_copy()
        case ("accept",):
            stage.accepted |= {alert.key for alert in stage.alerts}
    return now


@settings(max_examples=settings().max_examples // 10, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(actions, min_size=2, max_size=12))
def test_what_is_kept_is_what_would_be_found_anew(chosen: list[tuple[Any, ...]]) -> None:
    stage, now = filled(), START
    stage.check(now)
    for action in chosen:
        now = do(stage, now, action)
        stage.check(now)


@pytest.mark.long
def test_what_fires_and_recovers_is_told_alike() -> None:
    """A release fails beside another and is accepted, all fail and are accepted, and a part of it recovers."""
    stage, now = filled(), START
    old, new = {"agent": "a", "release": "1.0"}, {"agent": "a", "release": "1.1"}
    beside = [("came", 0, 9, 0, 0, old), ("fail", 10, new)]
    states = set[tuple[str, str]]()
    for action in [
        *beside * 12,
        ("accept",),
        *beside * 3,
        *[("pass", 1)] * 3,
        *[("fail", 30, old)] * 6,
        ("came", 0, 20, 0, 0, old),
        *[("pass", 1)] * 15,
        ("accept",),
        *[("pass", 20), ("came", 0, 20, 0, 0, new)] * 8,
        ("pass", 1500),
    ]:
        now = do(stage, now, action)
        stage.check(now)
        states |= {(alert.kind, alert.state) for alert in (*stage.alerts, *stage.earlier)}
    assert {kind for kind, state in states if state == "firing"} >= {"below", "drop", "slo", "above", "silent"}
    assert {kind for kind, state in states if state == "resolved"} >= {"below", "drop", "slo", "above"}


def test_a_backfill_between_two_checks_of_one_hour_is_seen() -> None:
    stage = KeepingStage(rule_of({"drop": {"against": "1d"}, "min_samples": 5}))
    stage.came(range(START - 60, START, 2), 0, 20)
    stage.check(START + 1)
    assert stage.alerts == []
    stage.judge_afterwards(range(START - 2 * DAY, START - 60, 20), 9, 1, agent="support", release="1.0")
    stage.check(START + 2)
    assert [alert.kind for alert in stage.alerts] == ["drop"]


def test_nothing_is_made_again_while_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = filled()
    stage.check(START + 1)
    made = []
    monkeypatch.setattr("tracegrade.alert.scan.look_drop", lambda *seen: made.append(seen))
    check(stage, [stage.rule], Before(), (START + 2) * MINUTE_NS, kept=stage.kept)
    assert made == []
    stage.came(range(START + 1, START + 2), 1, 0, agent="a", release="1.0")
    check(stage, [stage.rule], Before(), (START + 2) * MINUTE_NS, kept=stage.kept)
    assert made != []


def test_a_preview_finds_what_checks_that_keep_nothing_find(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, since = filled(12), START - 8 * 60
    do(stage, START - 6 * 60, ("fail", 150, {"agent": "a", "release": "1.1"}))
    asked = stage, [stage.rule], since * MINUTE_NS, START * MINUTE_NS, 40 * MINUTE_NS
    found = preview(*asked)
    assert {alert.state for alert in found.fired} == {"firing", "resolved"}
    monkeypatch.setattr(FindingsCache, "found", lambda kept, where, made_of, shown_from, make: make())
    assert preview(*asked) == found


def test_what_is_kept_of_series_that_are_gone_is_given_up() -> None:
    stage = filled()
    stage.check(START)
    kept = len(stage.kept)
    stage.came(range(START - 1, START), 5, 0, agent="b", release="1.0")
    stage.check(START)
    assert len(stage.kept) > kept
    stage.seen = {key: found for key, found in stage.seen.items() if key.agent != "b"}
    stage.check(START)
    assert len(stage.kept) == kept


def test_what_was_found_in_another_hour_is_given_up_before_anything_is_read() -> None:
    found = Found(None, False, None, shown_until=100)
    made = list[int]()
    kept = FindingsCache()
    for number, hour in enumerate([1, 1, 2, 1]):
        kept.begin_check(hour)
        kept.found("an alert", (), 50, lambda number=number: made.append(number) or found)
    assert made == [0, 2, 3]
