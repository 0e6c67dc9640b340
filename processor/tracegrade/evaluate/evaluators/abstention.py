"""abstention: was a tool called exactly when one should be? 1 or 0; which tool does not matter."""

from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.wording import were


class Criteria(ParameterModel):
    """What is expected."""

    should_call_tool: Annotated[bool, Field(description="Whether any tool should be called.")]


class Settings(ParameterModel):
    """There is one way to judge it."""


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    calls = len(evidence.calls)
    made = f"{were(calls, 'call')} made" if calls else "No tool was called"
    if criteria.should_call_tool is (calls > 0):
        text = f"{made}, as expected."
    else:
        text = f"{made}, where {'a' if criteria.should_call_tool else 'no'} tool should be called."
    return Score(float(criteria.should_call_tool is (calls > 0)), {"tool_called": calls > 0}, text)


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    return ["some tool is called" if criteria.should_call_tool else "no tool is called"]


def _with_further_calls(
    evidence: Evidence, criteria: Criteria, settings: Settings, score: float
) -> tuple[float, float]:
    return (score, score) if evidence.calls else (0.0, 1.0)


EVALUATOR = Evaluator(
    name="abstention",
    summary="Was a tool called exactly when one should be?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    with_further_calls=_with_further_calls,
    sentences=_sentences,
)
