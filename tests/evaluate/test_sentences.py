"""What people are told of a result: every evaluator and every word of a constraint, for each outcome."""

from typing import Any

from evaluate.sentences import ROWS, Row, called
from tracegrade.evaluate.constraints.forms import FORMS
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.judge_case import judge_case

BY_HANDOFFS = "handoffs"  # its rows need a trace: see evaluators/test_handoffs.py


def _judged(row: Row) -> dict[str, Any]:
    calls = [called(each) if isinstance(each, str) else each for each in row.calls]
    return judge_case(
        {
            "evaluator": row.evaluator,
            "gate": True,
            "prompt": "find it",
            "criteria": row.criteria,
            "config": {"matchers": True, **row.settings},
            "calls": calls,
            "final_answer": row.answer,
        }
    ).to_json()


def test_each_outcome_is_explained_in_the_words_of_its_row() -> None:
    wrong = []
    for row in ROWS:
        found = _judged(row)
        outcome = "fail" if row.outcome == "partial" else row.outcome
        if (found["outcome"], found["explanation"]) != (outcome, row.sentence):
            wrong.append(f"{row.evaluator} {row.outcome}: {found['outcome']}: {found['explanation']}")
    assert wrong == []


def test_a_partial_row_scores_between_0_and_1() -> None:
    scores = {f"{row.evaluator}: {row.sentence}": _judged(row)["score"] for row in ROWS if row.outcome == "partial"}
    assert {sentence for sentence, score in scores.items() if not 0 < score < 1} == set()


def test_every_evaluator_and_every_word_of_a_constraint_has_its_rows() -> None:
    has = {(row.evaluator, "fail" if row.outcome == "partial" else row.outcome) for row in ROWS}
    wanted = {(name, outcome) for name in EVALUATORS for outcome in ("pass", "fail") if name != BY_HANDOFFS}
    assert wanted - has == set()
    words = {(key, row.outcome) for row in ROWS for form in row.criteria.get("constraints", []) for key in form}
    assert {
        form.word
        for form in FORMS
        if not {(form.word, "pass")} <= words or not words & {(form.word, "fail"), (form.word, "partial")}
    } == set()
