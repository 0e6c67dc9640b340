from build import call
from tracegrade.evaluate.compare.outputs import ActualOutputs
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.evaluate.wording import ArgumentExcerpts
from tracegrade.evaluate.work import Work


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
