from collections.abc import Callable

from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.tool_call_output import ActualOutput
from tracegrade.evaluate.work import Work
from tracegrade.model.tool_call import ToolCall


def test_what_follows_from_evidence_is_worked_out_once(call: Callable[..., ToolCall]) -> None:
    asked: list[int] = []

    def count(evidence: Evidence) -> int:
        asked.append(len(evidence.calls))
        return len(evidence.calls)

    evidence = Evidence([call("a"), call("b")])
    assert (evidence.once(count), evidence.once(count)) == (2, 2)
    assert asked == [2]
    assert Evidence([call("c")]).once(count) == 1


def test_every_evaluation_pays_for_what_it_reads_also_when_another_has_read_it(call: Callable[..., ToolCall]) -> None:
    evidence = Evidence([call("a", output='{"a": 1}' + " " * 1600)])
    spent = []
    for _ in range(2):
        work = Work()
        output = ActualOutput(evidence, 0)
        assert output.decoded(work) == output.decoded(work) == {"a": 1}
        spent.append(work.limit - work.left)
    assert spent == [101, 101]
