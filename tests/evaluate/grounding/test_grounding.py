"""What an answer names, and what stands for the same."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import call, each
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.grounding.claims import claims, names_in
from tracegrade.evaluate.grounding.dates import Day, days
from tracegrade.evaluate.grounding.numbers import readings
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.work import Work

GROUNDED = EVALUATORS["grounded-answer"]


@each(
    ("text", "numbers"),
    [
        ("1,200.50", ["1200.5"]),
        ("1.200,50", ["1200.5"]),
        ("1 200,50", ["1200.5"]),
        ("1\u202f200,50", ["1200.5"]),
        ("1'200.50", ["1200.5"]),
        ("12,00,000", ["1200000"]),
        ("1.200", ["1.2", "1200"]),
        ("0.125", ["0.125"]),
        ("1.234.567", ["1234567"]),
        ("1.2 million", ["1200000"]),
        ("-5", ["5"]),
        ("1.2.3", []),
        ("1,2.3,4", []),
        ("9" * 60, []),
    ],
)
def test_a_number_is_read_in_the_ways_in_which_it_may_be_meant(text: str, numbers: list[str]) -> None:
    assert readings(text) == {Decimal(number) for number in numbers}


@given(st.integers(1, 10**9), st.integers(0, 99))
def test_each_way_of_writing_a_number_says_that_number(whole: int, cents: int) -> None:
    number = Decimal(whole) + Decimal(cents) / 100
    english = f"{number:,.2f}"
    for written in (
        english,
        english.translate(str.maketrans(",.", ".,")),
        english.replace(",", "\u202f"),
        f"{number:.2f}",
    ):
        assert number in readings(written), written


@each(
    ("text", "found"),
    [
        ("2026-03-12T10:00:00Z", {Day(2026, 3, 12)}),
        ("12.03.2026", {Day(2026, 3, 12)}),
        ("3/4/2026", {Day(2026, 3, 4), Day(2026, 4, 3)}),
        ("12th of March 2026", {Day(2026, 3, 12)}),
        ("March 12, 2026", {Day(2026, 3, 12)}),
        ("12. März", {Day(None, 3, 12)}),
        ("12 de marzo de 2026", {Day(2026, 3, 12)}),
        ("31/31/2026", set()),
    ],
)
def test_a_date_is_the_days_that_it_may_mean(text: str, found: set[Day]) -> None:
    assert days(text) == found


def test_what_an_answer_names() -> None:
    answer = (
        "Order ORD-1042 (#77) of 12 March 2026 costs EUR 1,200.50, 15 % off. See https://shop.example/o/1042. "
        "Call at 10:30, in 2-3 days; 5GB; mail a@b.example, version 1.2.3, Alice."
    )
    assert [tuple(claim) for claim in (*claims(answer, Work()), *names_in(answer, ["alice", "Bob"], Work()))] == [
        ("id", "ORD-1042"),
        ("id", "77"),
        ("date", "12 March 2026"),
        ("amount", "1,200.50"),
        ("percent", "15"),
        ("url", "https://shop.example/o/1042"),
        ("number", "2"),
        ("number", "3"),
        ("number", "5"),
        ("id", "a@b.example"),
        ("id", "1.2.3"),
        ("name", "alice"),
    ]


@given(st.text(st.sampled_from("a1-.,@/:# €may5\n"), max_size=300))
def test_any_answer_is_read(answer: str) -> None:
    assert all(claim.text for claim in claims(answer, Work()))


def judged(answer: str, outputs: list[Any], call: Any, prompt: str | None = "Where is A-1?", **settings: Any) -> Any:
    calls = [call("find", {}, output=output) for output in outputs]
    names = settings.pop("names", [])
    criteria = GROUNDED.read_criteria({"names": names})
    return GROUNDED.evaluate(Evidence(calls, prompt, answer), criteria, GROUNDED.read_settings(settings))


@each(
    ("answer", "output", "score"),
    [
        ("It costs EUR 1.200,50", {"total": 1200.5}, 1.0),
        ("It costs EUR 1.200,51", {"total": 1200.5}, 0.0),
        ("It costs 12.35", {"total": 12.3456}, 1.0),
        ("It costs 12.34", {"total": 12.3456}, 0.0),
        ("That is 15 %", {"share": 0.15}, 1.0),
        ("That is 15 %", {"text": "15.0 percent"}, 1.0),
        ("It came on 12 March", {"at": "2026-03-12T10:00:00Z"}, 1.0),
        ("It came on 13 March", {"at": "2026-03-12T10:00:00Z"}, 0.0),
        ("Since 2026", {"at": "2026-03-12"}, 1.0),
        ("It is ord-7", {"ORD-7": {}}, 1.0),
        ("It is ORD-71", {"id": "ORD-7"}, 0.0),
        ("It is A-12345", {"id": "x"}, 0.0),
        ("See https://a.example/x.", "at https://a.example/x?y=1", 1.0),
        ("See https://a.example/x", "at https://b.example/x", 0.0),
        ("500 and 600 and 700", [500, 600], 2 / 3),
        ("The refund is $20", {"amount": -20}, 1.0),
    ],
)
def test_the_score_is_the_share_that_was_given(answer: str, output: Any, score: float) -> None:
    assert judged(answer, [output], call).score == pytest.approx(score)


def test_a_sum_is_named_as_such() -> None:
    found = judged("Together $25.00", [{"price": 19.9}, {"price": 5.1}], call)
    assert found.score == 1.0
    assert found.details["derived"][0]["sum_of"] == ["5.1", "19.90"]
    assert judged("Together $25.00", [{"price": 19.9}, {"price": 5.1}], call, sums=False).score == 0.0


def test_names_are_given_or_not() -> None:
    found = judged("Alice and Bob agreed", [{"owner": "alice"}], call, names=["Alice", "Bob", "Carol"])
    assert (found.score, found.details["ungrounded"]) == (0.5, [{"kind": "name", "value": "Bob"}])
    assert "Bob" not in found.explanation


def test_what_cannot_be_read_leaves_open_only_what_is_found_nowhere() -> None:
    calls = [call("find", {}, output={"total": 500}), call("look", {}, output_status="truncated")]
    criteria, settings = GROUNDED.Criteria(), GROUNDED.Settings()
    given = GROUNDED.evaluate(Evidence(calls, "x", "It costs 500"), criteria, settings)
    ungiven = GROUNDED.evaluate(Evidence(calls, "x", "It costs 501"), criteria, settings)
    assert (given.outcome(1.0), ungiven.outcome(1.0)) == ("pass", "not_evaluable")
    assert ungiven.ends.why == "the output of a call was cut off by the sender (look, span 00000000000000aa)"
    assert judged("It costs 501", [], call, prompt=None).ends.why == "the prompt cannot be read"


def test_an_answer_that_names_nothing_is_not_scored() -> None:
    assert judged("All 3 of them are done.", [], call).score is None
    assert judged("All 3 of them are done.", [], call, vacuous="pass").score == 1.0
    assert judged("All 3 of them are done.", [], call, smallest=0).score == 0.0
