"""param-accuracy: does the call have the expected parameters, whatever its tool?

The share of expected parameters that the first call (or the last) has with an expected value; further ones are free,
names count with their letter case. ``{}`` is met by any call, ``null`` is not scored. Values are compared as
``scoring_config`` says, see `case_scoring.values_agree`; matchers say themselves what they take.
"""

from collections.abc import Iterable, Sequence

from tracegrade.evaluate.compare.case_scoring import (
    ExpectedParams,
    Occurrence,
    ParamSettings,
    ScoredCall,
    param_score,
    range_of_case,
    reads_params,
    the_calls,
    wrong_params,
)
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.evaluate.work import Work


class Criteria(ParameterModel):
    """What is expected."""

    expected_params: ExpectedParams


class Settings(ParamSettings):
    """How it is compared, and which call."""

    occurrence: Occurrence = "first"


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    calls: Sequence[ScoredCall | None] = the_calls(evidence, settings.occurrence) or [None]
    work = Work(evidence=evidence)
    scored = [param_score(criteria.expected_params, call, settings.comparison, work) for call in calls]
    found = max(scored, key=lambda params: params.score or 0.0)
    if found.score is None:
        return Score(None, {}, "No parameters are expected, so there is nothing to score.")
    text = wrong_params(found) if found.wrong else "all parameters are as expected"
    return Score(found.score, found.details(), f"{text[0].upper()}{text[1:]}.")


def _compared(evidence: Evidence, criteria: Criteria, settings: Settings, part: CallPart) -> Iterable[int]:
    return reads_params(criteria.expected_params, evidence, settings.occurrence, part)


EVALUATOR = Evaluator(
    name="param-accuracy",
    summary="Does the call have the expected parameters?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    reads=frozenset({"arguments"}),
    knows_unknown=True,
    compared=_compared,
    with_further_calls=lambda evidence, criteria, settings, score: range_of_case(
        evidence, settings.occurrence, [], score
    ),
    never_scores=lambda criteria, settings: (
        "expected_params is null, so nothing is ever scored" if criteria.expected_params is None else None
    ),
)
