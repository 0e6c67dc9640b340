"""tool-case: one test case of tool calling, as a suite has it: a tool, its parameters, and how they are compared.

Only the first call is scored, as `overall-score` scores it: of several calls of one message, the one that the message
names first. ``should_call_tool`` is implied by the expected tool; where
it is said and the two disagree, the criteria are refused.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, model_validator

from tracegrade.evaluate.compare.case_scoring import (
    ExpectedParams,
    ExpectedTool,
    ParamSettings,
    expected_call,
    range_of_case,
    reads_params,
    score_case,
)
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.evaluate.work import Work


class Criteria(ParamSettings):
    """What is expected, and how it is compared."""

    expected_tool: ExpectedTool
    expected_params: ExpectedParams = None
    should_call_tool: Annotated[bool | None, Field(description="Whether any tool should be called.")] = None

    @model_validator(mode="after")
    def _check_should_call(self) -> "Criteria":
        if self.should_call_tool is not None and self.should_call_tool is (self.expected_tool is None):
            said = "true" if self.should_call_tool else "false"
            raise ValueError(
                f"should_call_tool: {said} and expected_tool: {self.expected_tool!r} contradict each other"
            )
        return self


class Settings(ParameterModel):
    """All is said by the case."""


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    return score_case(
        evidence,
        "first",
        criteria.expected_tool,
        criteria.expected_params,
        criteria.comparison,
        Work(evidence=evidence),
    )


def _compared(evidence: Evidence, criteria: Criteria, settings: Settings, part: CallPart) -> Iterable[int]:
    return reads_params(criteria.expected_params, evidence, "first", part)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    return expected_call(criteria.expected_tool, criteria.expected_params)


EVALUATOR = Evaluator(
    name="tool-case",
    summary="One case of a tool-calling suite: the right tool with the right parameters, first of all.",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    expected_calls=_expected_calls,
    with_further_calls=lambda evidence, criteria, settings, score: range_of_case(
        evidence, "first", criteria.expected_tool, score
    ),
    reads=frozenset({"arguments"}),
    knows_unknown=True,
    compared=_compared,
)
