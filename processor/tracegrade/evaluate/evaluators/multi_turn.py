"""multi-turn: did a chain of calls lead to the expected one, without more than was needed?

overall = completion * efficiency - redundancy - detours, within 0..1, and 0 for a chain without calls. *completion* is
`overall-score` of the last call; *efficiency* is the optimal number of calls over the number made, at most 1;
*redundancy* is 0.1 for each call of the tool that was called directly before, whatever the arguments; *detours* are 0.1
for each call, but the last, of a tool that is neither expected nor a valid prerequisite, ignoring letter case. All are
rounded to four decimals.

Calls that one message asked for happened together, as did calls that overlap where no message is known. Of those
together at the end of the chain, the last is the expected call that scores best, or the best of all where none is
expected; the others count as calls on the way. Repeats are the fewest of any order among calls that happened together.

A suite stops at the message with an expected call; in a trace others may follow, and completion is then that of
whatever came last.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import Field

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
    scored_calls,
    tool_score,
)
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.evaluator import Evaluator, ScoreRange
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.evaluate.timeline import Timeline, fewest_repeats
from tracegrade.evaluate.wording import agreeing, counted, listed
from tracegrade.evaluate.work import Work

_PENALTY = 0.1
_DECIMALS = 4


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
    again = [later.name for earlier, later in pairwise(chain) if earlier.name == later.name]
    again = again and again[: _fewest_repeats(evidence, chain)]
    on_the_way = _on_the_way(criteria)
    off_the_way = [call for call in chain if call.name.lower() not in on_the_way]
    best: tuple[float, float, ScoredCall, ParamScore] | None = None
    for last in _may_be_last(evidence, criteria):
        params = param_score(criteria.expected_params, last, settings.comparison, work)
        completion = overall(tool_score(criteria.expected_tool, last), params.score)
        rank = completion * _efficiency(criteria, chain) + (_PENALTY if last.name.lower() not in on_the_way else 0.0)
        if best is None or rank > best[0]:
            best = rank, completion, last, params
    assert best is not None, "a chain has a last call"
    _, completion, last, params = best
    detours = [call.name for call in off_the_way if call is not last]
    return _scored(criteria, chain, completion, (last, params), again, detours)


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    """Further calls make the chain longer; at best one of them is what was expected, and no call is repeated at once.

    Of the calls that are known, at most the last may be off the way without being a detour. At worst nothing is left.
    """
    chain = evidence.once(scored_calls)
    on_the_way = _on_the_way(criteria)
    off_the_way = sum(call.name.lower() not in on_the_way for call in chain)
    efficiency = min(1.0, criteria.optimal_hops / (len(chain) + 1))
    most = efficiency - _PENALTY * max(0, off_the_way - 1)
    return 0.0, max(score, round(most, _DECIMALS))


def _on_the_way(criteria: Criteria) -> set[str]:
    """The names of the tools that are expected or prerequisites, in lower case."""
    expected = listed_names(criteria.expected_tool) if criteria.expected_tool is not None else ()
    return {name.lower() for name in (*criteria.valid_prerequisites, *expected)}


def _may_be_last(evidence: Evidence, criteria: Criteria) -> Sequence[ScoredCall]:
    """The calls at the end of the chain that happened together; of those, the expected ones if there are any."""
    together = set(evidence.once(Timeline).groups("batches")[-1])
    ending = [call for call in evidence.once(scored_calls) if call.position in together]
    return [call for call in ending if tool_score(criteria.expected_tool, call)] or ending


def _fewest_repeats(evidence: Evidence, chain: Sequence[ScoredCall]) -> int:
    names_at: dict[int, list[str]] = {}
    for call in chain:
        names_at.setdefault(call.position, []).append(call.name)
    return fewest_repeats(
        [[name for place in group for name in names_at[place]] for group in evidence.once(Timeline).groups("batches")]
    )


def _efficiency(criteria: Criteria, chain: Sequence[ScoredCall]) -> float:
    return min(1.0, criteria.optimal_hops / len(chain))


def _scored(
    criteria: Criteria,
    chain: Sequence[ScoredCall],
    completion: float,
    ended: tuple[ScoredCall, ParamScore],
    again: Sequence[str],
    detours: Sequence[str],
) -> Score:
    efficiency = _efficiency(criteria, chain)
    redundancy, detour = _PENALTY * len(again), _PENALTY * len(detours)
    score = max(0.0, min(1.0, completion * efficiency - redundancy - detour))
    reasons = [explain_case(criteria.expected_tool, *ended).rstrip(".") + " last"]
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
    if part != "arguments" or criteria.expected_params is None or not criteria.expected_params.members:
        return ()
    return {call.position for call in _may_be_last(evidence, criteria)} if evidence.calls else ()


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
    with_further_calls=_with_further_calls,
)
