"""tool-selection: was the right tool chosen?

1 or 0, ignoring letter case: the first (or last) call is of the expected tool, or of one of several. ``null`` expects
that nothing is called, an empty list is met by nothing. What is called beside that one call does not matter.
"""

from tracegrade.evaluate.compare.case_scoring import (
    ExpectedTool,
    Occurrence,
    ParamScore,
    expected_call,
    explain_case,
    range_of_case,
    the_calls,
    tool_score,
)
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.model.json_value import JsonValue


class Criteria(ParameterModel):
    """What is expected."""

    expected_tool: ExpectedTool


class Settings(ParameterModel):
    """Which call is judged."""

    occurrence: Occurrence = "first"


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expected = criteria.expected_tool
    call = max(the_calls(evidence, settings.occurrence), key=lambda made: tool_score(expected, made), default=None)
    details: dict[str, JsonValue] = {
        "expected_tool": None if expected is None else list(listed_names(expected)),
        "called": None if call is None else call.name,
    }
    text = explain_case(expected, call, ParamScore(None))
    return Score(tool_score(expected, call), details, text)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    return expected_call(criteria.expected_tool, None)


EVALUATOR = Evaluator(
    name="tool-selection",
    summary="Was the right tool chosen, or none where none was right?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    expected_calls=_expected_calls,
    with_further_calls=lambda evidence, criteria, settings, score: range_of_case(
        evidence, settings.occurrence, criteria.expected_tool, score
    ),
)
