"""What judging costs grows with the calls, not with their square, whatever content they lack: in lines, not time."""

import sys
from typing import Any

import pytest

from build import each
from evaluate.criteria_of_each import CRITERIA
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall

pytestmark = pytest.mark.long

_FROM: dict[str, Any] = {"$from": ["prompt", "b.output.id", "*.arguments"]}
_FLOWS: dict[str, Any] = {
    "tool-call-args": {"tool_calls": [{"name": "a", "args": {"x": _FROM}}]},
    "tool-call-output": {"tool_outputs": [{"name": "a", "output": _FROM}]},
    "tool-call-accuracy": {"reference_tool_calls": [{"name": "a", "args": {"x": _FROM}}]},
    "trajectory": {"tool_calls": [{"name": "a", "args": {"x": _FROM}}]},
}
_RULES = [(name, criteria) for table in (CRITERIA, _FLOWS) for name, criteria in sorted(table.items())]
_STATUSES = ("ok", "absent", "truncated", "text")


def calls_of(count: int, status: Any, apart: bool) -> list[ToolCall]:
    """Calls of two tools by turns; the arguments of the one that no rule reads can be read."""
    lacks = status != "ok"
    return [
        ToolCall(
            "ab"[place % 2], "ab"[place % 2], None, "cut" if lacks else {"x": place}, status,
            "cut" if lacks else {"id": place}, status, None, place if apart else 7, place, f"{place:016x}", "", "",
        )
        for place in range(count)
    ]  # fmt: skip


def lines_run(name: str, criteria: Any, count: int, status: str, apart: bool) -> int:
    """How many lines of ours and calls of anybody's judging takes."""
    evaluator = EVALUATORS[name]
    read, settings = evaluator.read_criteria(criteria), evaluator.Settings()
    evidence = Evidence(calls_of(count, status, apart), final_answer="x")
    found = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal found
        found += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        evaluator.evaluate(evidence, read, settings)
    finally:
        sys.settrace(before)
    return found


@each("apart", [True, False], ids=["apart", "at one time"])
@each("status", _STATUSES)
@each(("name", "criteria"), _RULES, ids=[f"{i}-{name}" for i, (name, _) in enumerate(_RULES)])
def test_judging_grows_with_the_calls(name: str, criteria: Any, status: str, apart: bool) -> None:
    few, many = (lines_run(name, criteria, count, status, apart) for count in (250, 1000))
    assert many <= 4.6 * few + 2000, f"{few} lines for 250 calls, {many} for 1,000"
