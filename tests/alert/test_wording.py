"""What people are told of an alert: every kind, firing and ended for every reason; and of close reasons."""

from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from alert.sentences import BELOW, EXPECTATIONS, NOT_FIRED, ROWS, TIMES_TO_FIRE, Row
from build import each
from build.stored_alerts import incident
from tracegrade.alert.notify.message import details
from tracegrade.alert.wording import (
    LONGEST_HEADLINE,
    budget_text,
    by_chance,
    expectation_text,
    headline,
    not_fired_text,
    share_text,
    span_text,
    summary,
    time_to_fire_text,
    value_text,
    waiting_text,
)
from tracegrade.model.trace import CLOSE_REASONS, CloseReason
from tracegrade.rule.alert import AlertKind
from tracegrade.store.alerts import EndReason, ErrorBudget, WaitingReason
from tracegrade.web.incidents import badge_of

# Of fixed bounds there is no level to accept; what is of all releases is replaced by none of them.
NEVER = {
    *((kind, "accepted") for kind in ("below", "above", "silent", "slo")),
    *((kind, "superseded") for kind in ("silent", "slo")),
}
NUMBERS = st.integers(1, 10_000_000)


def test_each_alert_says_the_sentence_of_its_row() -> None:
    assert [(row.kind, row.ended, summary(row.alert)) for row in ROWS] == [
        (row.kind, row.ended, row.sentence) for row in ROWS
    ]


def test_why_an_alert_did_not_fire_is_the_sentence_of_its_row() -> None:
    assert [not_fired_text(found, results) for found, results, _ in NOT_FIRED] == [said for *_, said in NOT_FIRED]


def test_how_soon_an_alert_would_fire_is_the_sentence_of_its_row() -> None:
    assert [time_to_fire_text(BELOW, found) for found, _ in TIMES_TO_FIRE] == [said for _, said in TIMES_TO_FIRE]


def test_what_to_expect_of_an_alert_is_the_sentence_of_its_row() -> None:
    assert [expectation_text(found) for found, _ in EXPECTATIONS] == [said for _, said in EXPECTATIONS]
    sized = {kind for kind in get_args(AlertKind) if kind not in ("coverage", "silent")}
    assert {found.alert.kind for found, _ in EXPECTATIONS} == sized


def test_every_reason_to_wait_has_a_sentence() -> None:
    said = {reason: waiting_text(reason) for reason in get_args(WaitingReason)}
    assert said == {"no_baseline": "no baseline yet", "too_few": "too few results yet"}


def test_every_kind_firing_and_ended_for_every_reason_has_a_row() -> None:
    wanted = {(kind, reason) for kind in get_args(AlertKind) for reason in get_args(EndReason)}
    assert wanted - NEVER == {(row.kind, row.ended) for row in ROWS}


def test_every_reason_to_end_has_a_badge() -> None:
    assert all(badge_of(row.alert) for row in ROWS)


def test_every_close_reason_has_a_sentence() -> None:
    assert set(get_args(CloseReason)) == set(CLOSE_REASONS)


@given(st.sampled_from(ROWS), st.text("xyz", min_size=4, max_size=300), NUMBERS, st.integers(1, 999))
def test_a_headline_cuts_names_and_never_numbers(row: Row, name: str, samples: int, members: int) -> None:
    alert = replace(row.alert, rule_id=name, service=name, agent=name, samples=samples)
    said = headline(incident(*[alert] * members))
    assert len(said) <= LONGEST_HEADLINE
    wanted = summary(replace(row.alert, rule_id="r", service="s", agent="a", samples=samples))
    assert [word for word in wanted.split() if word[0].isdigit()] == [
        word for word in said.split() if word[0].isdigit()
    ]
    assert members == 1 or f"(+{members - 1} alert{'s' if members > 2 else ''})" in said


def test_names_that_a_headline_cuts_are_told_below_it() -> None:
    alert = replace(ROWS[0].alert, agent="a" * 200)
    assert details(incident(alert))[0] == f"rule order, service shop, agent {'a' * 200}"
    assert not any(line.startswith("rule ") for line in details(incident(ROWS[0].alert)))


@each(
    ("share", "beside", "text"),
    [
        (0.9896, 0.99, "98.96%"),
        (0.99, 0.9896, "99%"),
        (0.9997, None, "99.97%"),
        (0.00004, None, "0.004%"),
        (1.0, None, "100%"),
        (0.0, None, "0%"),
        (0.7436, None, "74.4%"),
    ],
)
def test_a_share_is_rounded_to_no_false_statement(share: float, beside: float | None, text: str) -> None:
    assert share_text(share, beside) == text


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_texts_of_two_shares_are_in_the_order_of_the_shares(one: float, other: float) -> None:
    texts = [float(share_text(*pair).removesuffix("%")) for pair in ((one, other), (other, one))]
    if abs(one - other) > 1e-9:
        assert (texts[0] < texts[1]) == (one < other)
        assert texts[0] != texts[1]


@each(
    ("seconds", "text"),
    [
        (30, "30 seconds"),
        (60, "1 minute"),
        (720, "12 minutes"),
        (3600, "1 hour"),
        (5040, "84 minutes"),
        (7800, "2 hours 10 minutes"),
        (9 * 3600 + 3590, "10 hours"),
        (16.8 * 3600, "17 hours"),
        (86_400, "1 day"),
        (36 * 3600, "36 hours"),
        (75 * 3600, "3 days 3 hours"),
        (252.3 * 86_400, "252 days"),
        (5000 * 365 * 86_400, "5,000 years"),
        (1e20, "more than 1,000,000 years"),
    ],
)
def test_a_length_of_time_is_said_as_people_say_it(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


@each(
    ("left", "spent_in_s", "text"),
    [
        (None, None, ("unknown", "nothing was judged")),
        (-3.747, 0.0, ("used up", "4.7 times the budget was spent in 7 days")),
        (0.0, 0.0, ("used up", "the whole budget was spent in 7 days")),
        (0.62, None, ("62% left", "it lasts at this rate")),
        (0.62, 273_600.0, ("62% left", "used up in 3 days 4 hours at this rate")),
    ],
)
def test_what_is_left_of_a_budget(left: float | None, spent_in_s: float | None, text: tuple[str, str]) -> None:
    assert budget_text(ErrorBudget(0.99, 604_800.0, 3600.0, left, spent_in_s)) == text


def test_weak_evidence_is_told_as_how_often_chance_shows_as_much() -> None:
    month = 30 * 86_400.0
    asked = "to fire, it must be as rare as once in 30 days (false_alarm_every)"
    for evidence, often in ((0.00026, "every 11 minutes"), (1e-9, "more than once a minute")):
        told = by_chance(evidence, month)
        assert told == f"chance alone would produce this {often}; {asked}"
    assert by_chance(0.0, month) == "nothing pointed to a change for the worse"


@each(
    ("value", "beside", "text"),
    [
        (200.0, None, "3m 20s"),
        (60.2, 60.0, "60.2s"),
        (60.0, 60.2, "60s"),
        (200.0, 12.4, "3m 20s"),
        (60.0, 60.0, "1m 0s"),
    ],
)
def test_two_lengths_of_time_that_differ_are_told_apart(value: float, beside: float | None, text: str) -> None:
    assert value_text("duration", value, beside) == text
