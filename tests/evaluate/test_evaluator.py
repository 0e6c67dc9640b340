from typing import Any

import pytest

from build import call, each
from tracegrade.evaluate.compare.outputs import ActualOutputs
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.wording import ArgumentExcerpts
from tracegrade.evaluate.work import Work
from tracegrade.model.tri import Unknown


def test_what_follows_from_evidence_is_worked_out_once() -> None:
    asked: list[int] = []

    def count(evidence: Evidence) -> int:
        asked.append(len(evidence.calls))
        return len(evidence.calls)

    evidence = Evidence([call("a"), call("b")])
    assert (evidence.once(count), evidence.once(count)) == (2, 2)
    assert asked == [2]
    assert Evidence([call("c")]).once(count) == 1


def test_every_evaluation_pays_for_what_it_reads_also_when_another_has_read_it() -> None:
    evidence = Evidence([call("a", output='{"a": 1}' + " " * 1600)])
    spent = []
    for _ in range(2):
        work = Work()
        output = ActualOutputs(evidence)[0]
        assert output.decoded(work) == output.decoded(work) == {"a": 1}
        spent.append(work.limit - work.left)
    assert spent == [101, 101]


def test_a_justification_is_written_once_and_only_when_somebody_asks() -> None:
    written = []

    def justify() -> Justification:
        written.append("now")
        return {"matched": 1}, "One matched."

    score = Score(1.0, justify=justify)
    assert score.score == 1.0
    assert written == []
    assert (score.explanation, score.details) == ("One matched.", {"matched": 1})
    assert written == ["now"]
    assert score == Score(1.0, {"matched": 1}, "One matched.")
    assert score != Score(1.0, {"matched": 2}, "One matched.")


def test_judging_by_arguments_writes_nothing_down_until_it_is_asked() -> None:
    evaluator = EVALUATORS["tool-call-args"]
    evidence = Evidence([call("a", {"x": 1.0})])
    criteria = evaluator.read_criteria({"tool_calls": [{"name": "a", "args": {"x": 1}}]})
    found = evaluator.evaluate(evidence, criteria, evaluator.read_settings({}))
    excerpts = evidence.once(ArgumentExcerpts)
    assert excerpts == {}
    assert found.details["differences"] == []
    assert excerpts == {0: '{"x": 1.0}'}


@each(
    ("name", "criteria", "looked", "ends"),
    [
        ("args-schema", {"schemas": {"pay": {"type": "object"}}}, 2, (0.0, 1.0)),
        ("param-accuracy", {"expected_params": {"x": 1}}, 1, (0.0, 1.0)),
        ("overall-score", {"expected_tool": "pay", "expected_params": {"x": 1}}, 1, (0.6, 1.0)),
        ("multi-turn", {"expected_tool": "pay", "expected_params": {"x": 1}}, 1, (0.5, 0.9)),
        ("exact-match", {"expected_output": "a"}, 1, (0.0, 1.0)),
        ("contains", {"search_text": "a"}, 1, (0.0, 1.0)),
    ],
)
def test_both_ends_of_a_sum_are_found_by_looking_once(
    name: str, criteria: Any, looked: int, ends: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Unknown] = []

    def note(work: Work, unknown: Unknown) -> None:
        noted.append(unknown)
        work.unknown = unknown

    monkeypatch.setattr(Work, "note", note)
    calls = [call("pay", start_ns=place + 1) for place in range(2)]
    evidence = Evidence(calls, None, "[hash:3f9a0c:5d41402abc4b2a76b971]", redacted=True)
    evaluator = EVALUATORS[name]
    score = evaluator.evaluate(evidence, evaluator.read_criteria(criteria), evaluator.read_settings({}))
    assert (score.ends.least, score.ends.most, len(noted)) == (*ends, looked)
