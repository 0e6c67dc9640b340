"""multi-turn: did a chain of calls lead to the expected one, without more than was needed?

overall = completion * efficiency - redundancy - detours, within 0..1, and 0 for a chain without calls. *completion* is
`overall-score` of the last call; *efficiency* is the optimal number of calls over the number made, at most 1;
*redundancy* is 0.1 for each call of the tool that was called directly before, whatever the arguments; *detours* are 0.1
for each call, but the last, of a tool that is neither expected nor a valid prerequisite, ignoring letter case. All are
rounded to four decimals. A suite stops at the expected call; in a trace others may follow, and completion is then that
of whatever came last.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.call_order import any_tied, fewest_repeats, ties
from tracegrade.evaluate.compare.case_scoring import (
    ExpectedParams,
    ExpectedTool,
    ParamScore,
    ParamSettings,
    ScoredCall,
    expected_call,
    explain_case,
    overall,
    param_score,
    reads_params,
    scored_calls,
    the_calls,
    tool_score,
)
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.evaluate.wording import agreeing, counted, listed
from tracegrade.evaluate.work import Work

_PENALTY = 0.1
_DECIMALS = 4
_MAX_LAST = 8  # tools of which any may have been the last


class Criteria(ParameterModel):
    """What is expected."""

    expected_tool: ExpectedTool
    expected_params: ExpectedParams = None
    valid_prerequisites: list[str] = Field(default_factory=list, description="Tools that may be called on the way.")
    optimal_hops: Annotated[int, Field(ge=1, description="The number of calls that is enough.")] = 2


class Settings(ParamSettings):
    """How parameters are compared."""


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    chain = evidence.once(scored_calls)
    if not chain:
        zeros = dict.fromkeys(("completion", "efficiency", "redundancy_penalty", "detour_penalty"), 0.0)
        return Score(0.0, {**zeros, "calls": 0}, "Nothing was called.")
    work = Work(evidence=evidence)
    by_name: dict[str, tuple[float, ScoredCall, ParamScore]] = {}
    for last in the_calls(evidence, "last"):  # one, unless their order is unknown
        params = param_score(criteria.expected_params, last, settings.comparison, work)
        completion = overall(tool_score(criteria.expected_tool, last), params.score)
        if last.name not in by_name or completion > by_name[last.name][0]:
            by_name[last.name] = completion, last, params
    best = sorted(by_name.values(), key=lambda found: -found[0])[:_MAX_LAST]
    scored = [_chain(evidence, chain, found, criteria) for found in best]
    return max(scored, key=lambda score: score.score or 0.0)


def _chain(
    evidence: Evidence,
    chain: Sequence[ScoredCall],
    found: tuple[float, ScoredCall, ParamScore],
    criteria: Criteria,
) -> Score:
    """The score of the chain when this call, of that completion, ended it."""
    completion, last, params = found
    efficiency = min(1.0, criteria.optimal_hops / len(chain))
    again = [later.name for earlier, later in pairwise(chain) if earlier.name == later.name]
    is_tied: bool = evidence.once(any_tied)
    if again and is_tied:
        names_at: dict[int, list[str]] = {}
        for call in chain:
            names_at.setdefault(call.position, []).append(call.name)
        groups = [[name for position in group for name in names_at[position]] for group in evidence.once(ties)]
        again = again[: fewest_repeats(groups, last.name)]
    expected = listed_names(criteria.expected_tool) if criteria.expected_tool is not None else ()
    on_the_way = {name.lower() for name in (*criteria.valid_prerequisites, *expected)}
    detours = [call.name for call in chain if call is not last and call.name.lower() not in on_the_way]
    redundancy, detour = _PENALTY * len(again), _PENALTY * len(detours)
    score = max(0.0, min(1.0, completion * efficiency - redundancy - detour))
    reasons = [explain_case(criteria.expected_tool, last, params).rstrip(".") + " last"]
    if efficiency < 1:
        enough = criteria.optimal_hops
        reasons.append(f"{counted(len(chain), 'call')} where {enough} {agreeing(enough, 'is', 'are')} enough")
    reasons += [f"called again at once: {listed(again)}"] if again else []
    reasons += [f"detours: {listed(detours)}"] if detours else []
    details = {
        "completion": round(completion, _DECIMALS),
        "efficiency": round(efficiency, _DECIMALS),
        "redundancy_penalty": round(redundancy, _DECIMALS),
        "detour_penalty": round(detour, _DECIMALS),
        "calls": len(chain),
    }
    return Score(round(score, _DECIMALS), {**details}, "; ".join(reasons) + ".")


def _compared(evidence: Evidence, criteria: Criteria, settings: Settings, part: CallPart) -> Iterable[int]:
    return reads_params(criteria.expected_params, evidence, "last", part)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    return expected_call(criteria.expected_tool, criteria.expected_params)


EVALUATOR = Evaluator(
    name="multi-turn",
    summary="Did a chain of calls lead to the expected one, without detours and repeats?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    expected_calls=_expected_calls,
    reads=frozenset({"arguments"}),
    knows_unknown=True,
    compared=_compared,
)
