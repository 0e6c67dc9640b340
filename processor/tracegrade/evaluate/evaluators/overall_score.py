"""overall-score: tool and parameters in one number, 0.6 * tool + 0.4 * parameters; the tool alone without parameters.

A wrong tool with the right parameters keeps 0.4. The call is the first one, or the last; see `tool-selection` and
`param-accuracy` for how either is scored.
"""

from collections.abc import Iterable

from tracegrade.evaluate.compare.case_scoring import (
    ExpectedParams,
    ExpectedTool,
    Occurrence,
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


class Criteria(ParameterModel):
    """What is expected."""

    expected_tool: ExpectedTool
    expected_params: ExpectedParams = None


class Settings(ParamSettings):
    """How it is compared, and which call."""

    occurrence: Occurrence = "first"


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    return score_case(
        evidence,
        settings.occurrence,
        criteria.expected_tool,
        criteria.expected_params,
        settings.comparison,
        Work(evidence=evidence),
    )


def _compared(evidence: Evidence, criteria: Criteria, settings: Settings, part: CallPart) -> Iterable[int]:
    return reads_params(criteria.expected_params, evidence, settings.occurrence, part)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    return expected_call(criteria.expected_tool, criteria.expected_params)


EVALUATOR = Evaluator(
    name="overall-score",
    summary="Tool and parameters in one number: 0.6 for the tool, 0.4 for the parameters.",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    expected_calls=_expected_calls,
    with_further_calls=lambda evidence, criteria, settings, score: range_of_case(
        evidence, settings.occurrence, criteria.expected_tool, score
    ),
    reads=frozenset({"arguments"}),
    knows_unknown=True,
    compared=_compared,
)
