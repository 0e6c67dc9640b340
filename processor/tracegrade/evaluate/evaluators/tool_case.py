"""The cases of a tool-calling suite: was the right tool called, with the right parameters, in as few calls as it takes?

Five evaluators judge one `_Case`: they differ in what of it a rule gives, where it says how parameters are compared,
and what of the call counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple, TypeVar

from pydantic import Field, model_validator

from tracegrade.display import count
from tracegrade.evaluate.compare.case_scoring import (
    PARAM_WEIGHT,
    ExpectedParams,
    ExpectedTool,
    Occurrence,
    ParamScore,
    ParamSettings,
    ScoredCall,
    at_the_end,
    ending_calls,
    overall,
    param_score,
    scored_calls,
    stays_first,
    tool_score,
)
from tracegrade.evaluate.compare.differences import origins_of
from tracegrade.evaluate.compare.expected_calls import ExpectedCall, ExpectedCalls, expected_arguments
from tracegrade.evaluate.criteria.expected import ExpectedObject
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.evaluator import Evaluator, Reads, ScoreRange
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.timeline import Timeline, fewest_repeats
from tracegrade.evaluate.unknown import with_unknown
from tracegrade.evaluate.wording import agreeing, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
from tracegrade.model.json_value import JsonValue

_PENALTY = 0.1
_DECIMALS = 4


class ToolCriteria(ParameterModel):
    """What is expected."""

    expected_tool: ExpectedTool


class ParamCriteria(ParameterModel):
    """What is expected."""

    expected_params: ExpectedParams


class CallCriteria(ToolCriteria):
    """What is expected."""

    expected_params: ExpectedParams = None


class ChainCriteria(CallCriteria):
    """What is expected."""

    valid_prerequisites: list[str] = Field(default_factory=list, description="Tools that may be called on the way.")
    optimal_hops: Annotated[int, Field(ge=1, description="The number of calls that is enough.")] = 2


class CaseCriteria(CallCriteria, ParamSettings):
    """What is expected, and how it is compared."""

    should_call_tool: Annotated[bool | None, Field(description="Whether any tool should be called.")] = None

    @model_validator(mode="after")
    def _check_should_call(self) -> "CaseCriteria":
        if self.should_call_tool is not None and self.should_call_tool is (self.expected_tool is None):
            said = "true" if self.should_call_tool else "false"
            raise ValueError(
                f"should_call_tool: {said} and expected_tool: {self.expected_tool!r} contradict each other"
            )
        return self


class NoSettings(ParameterModel):
    """All is said by the case."""


class OccurrenceSettings(ParameterModel):
    """Which call is judged."""

    occurrence: Occurrence = "first"


class CallSettings(OccurrenceSettings, ParamSettings):
    """How it is compared, and which call."""


_NO_PARAMS = ParamSettings()


class _Case(NamedTuple):
    """What is expected of which call, and how its parameters are compared."""

    tool: ExpectedTool
    params: ExpectedObject | None
    occurrence: Literal["first", "last"]
    compared: ParamSettings

    def pairing(self, call: ScoredCall | None) -> Pairing:
        """The scored call paired with the expected one, where it is of its tool; no pairs where none is expected."""
        if self.tool is None:
            return Pairing([])
        return Pairing([call.position if call is not None and tool_score(self.tool, call) else None])

    def judge(self, call: ScoredCall | None, work: Work) -> "_JudgedCall":
        """The call beside what is expected of it."""
        params = param_score(self.params, call, self.compared.comparison, work)
        return _JudgedCall(call, tool_score(self.tool, call), params)


class _JudgedCall(NamedTuple):
    call: ScoredCall | None
    tool: float
    params: ParamScore

    @property
    def overall(self) -> float:
        """The tool and the parameters in one number."""
        return overall(self.tool, self.params.score)

    @property
    def at_best(self) -> "_JudgedCall":
        """The same where what is unknown is as expected."""
        return self._replace(params=replace(self.params, score=self.params.at_best))


def _expected_calls(case: _Case) -> ExpectedCalls:
    """The one call that a case expects, with these parameters at least; none where no tool should be called."""
    if case.tool is None:
        return ExpectedCalls([])
    names = listed_names(case.tool)
    return ExpectedCalls(
        [ExpectedCall(names) if case.params is None else expected_arguments(names, case.params, partly=True)]
    )


def _report_tool(case: _Case, judged: _JudgedCall) -> Score:
    details: dict[str, JsonValue] = {
        "expected_tool": None if case.tool is None else list(listed_names(case.tool)),
        "called": None if judged.call is None else judged.call.name,
    }
    return Score(judged.tool, details, _explain(case, judged), pairing=case.pairing(judged.call))


def _report_params(case: _Case, judged: _JudgedCall) -> Score:
    params = judged.params
    if params.score is None:
        return Score(None, {}, "No parameters are expected, so there is nothing to score.")
    text = _wrong_params(params) if params.wrong else "all parameters are as expected"
    return Score(params.score, params.details(), f"{text[0].upper()}{text[1:]}.")


def _report_call(case: _Case, judged: _JudgedCall) -> Score:
    params = judged.params
    details: dict[str, JsonValue] = {"tool_selection": judged.tool, "param_accuracy": params.score, **params.details()}
    return Score(judged.overall, details, _explain(case, judged), pairing=case.pairing(judged.call))


def _explain(case: _Case, judged: _JudgedCall) -> str:
    """What was called and what was not as expected, in words that name tools and parameters."""
    call, params = judged.call, judged.params
    expected = case.tool
    found = "no call was made" if call is None else f"{listed([call.name])} was called"
    wanted = "no call" if expected is None else " or ".join(listed([name]) for name in listed_names(expected))
    text = f"{found}, as expected" if judged.tool == 1 else f"{found}, where {wanted or 'no call'} was expected"
    return f"{text}; {_wrong_params(params)}." if params.wrong else f"{text}."


def _wrong_params(params: ParamScore) -> str:
    """The parameters that are not as expected, and where they should have come from."""
    return "; ".join([f"wrong parameters: {listed(params.wrong)}", *origins_of(params.looked_up)])


C = TypeVar("C", bound=ParameterModel)
S = TypeVar("S", bound=ParameterModel)


def _of_one_call(
    name: str,
    summary: str,
    Criteria: type[C],
    Settings: type[S],
    case: Callable[[C, S], _Case],
    report: Callable[[_Case, _JudgedCall], Score],
    asks: frozenset[Reads] = frozenset({"arguments"}),
    expected_calls: Callable[[_Case], ExpectedCalls | None] = _expected_calls,
    never_scores: Callable[[C, S], str | None] = lambda criteria, settings: None,
) -> Evaluator[C, S]:
    """The evaluator that judges the first or the last call by the case that `case` makes of criteria and settings."""

    def score(evidence: Evidence, criteria: C, settings: S) -> Score:
        judged, work = case(criteria, settings), Work(evidence=evidence)
        positions = at_the_end(evidence, judged.occurrence)
        # Of several that may be the first or last call, since their order is unknown, the one that scores best counts.
        calls = ending_calls(evidence.once(scored_calls), positions, judged.occurrence)
        found = [judged.judge(call, work) for call in calls] or [judged.judge(None, work)]
        result = report(judged, max(found, key=lambda call: call.overall))
        if work.unknown is None:
            return result
        best = max((call.at_best for call in found), key=lambda call: call.overall)
        return with_unknown(result, work.unknown, report(judged, best).ends.most)

    def with_further_calls(evidence: Evidence, criteria: C, settings: S, score: float) -> ScoreRange:
        judged = case(criteria, settings)
        if judged.occurrence == "first" and stays_first(evidence, range(len(evidence.calls))):
            return score, score
        # Where no call is expected, one is one too many, whichever it is: its parameters alone may be right.
        return 0.0, 1.0 if judged.tool is not None or not evidence.calls else PARAM_WEIGHT

    return Evaluator(
        name=name,
        summary=summary,
        Criteria=Criteria,
        Settings=Settings,
        score=score,
        expected_calls=lambda criteria, settings: expected_calls(case(criteria, settings)),
        never_scores=never_scores,
        asks=asks,
        with_further_calls=with_further_calls,
    )


def _chain_case(criteria: ChainCriteria, settings: ParamSettings) -> _Case:
    return _Case(criteria.expected_tool, criteria.expected_params, "last", settings)


def _score_chain(evidence: Evidence, criteria: ChainCriteria, settings: ParamSettings) -> Score:
    chain = evidence.once(scored_calls)
    case, work = _chain_case(criteria, settings), Work(evidence=evidence)
    if not chain:
        zeros = dict.fromkeys(("completion", "efficiency", "redundancy_penalty", "detour_penalty"), 0.0)
        return Score(0.0, {**zeros, "calls": 0}, "No call was made.", pairing=case.pairing(None))
    efficiency = min(1.0, criteria.optimal_hops / len(chain))
    again = [later.name for earlier, later in pairwise(chain) if earlier.name == later.name]
    again = again and again[: _fewest_repeats(evidence, chain)]
    off_the_way = {id(call): call.name for call in _off_the_way(criteria, chain)}
    may_be_last = [case.judge(call, work) for call in _may_be_last(evidence, criteria)]

    def worth(judged: _JudgedCall) -> float:
        """What counts for taking it as the last one, which is no detour."""
        return judged.overall * efficiency + _PENALTY * (id(judged.call) in off_the_way)

    def score_with(last: _JudgedCall) -> float:
        detours = len(off_the_way) - (id(last.call) in off_the_way)
        return round(max(0.0, min(1.0, last.overall * efficiency - redundancy - _PENALTY * detours)), _DECIMALS)

    redundancy = _PENALTY * len(again)
    last = max(may_be_last, key=worth)
    at_best = max((judged.at_best for judged in may_be_last), key=worth)
    detours = [name for call, name in off_the_way.items() if call != id(last.call)]
    reasons = [f"at the end, {_explain(case, last).rstrip('.')}"]
    if efficiency < 1:
        enough = criteria.optimal_hops
        reasons.append(f"{count(len(chain), 'call')} where {enough} {agreeing(enough, 'is', 'are')} enough")
    reasons += [f"called again at once: {listed(again)}"] if again else []
    reasons += [f"detours: {listed(detours)}"] if detours else []
    details: dict[str, JsonValue] = {
        "completion": round(last.overall, _DECIMALS),
        "efficiency": round(efficiency, _DECIMALS),
        "redundancy_penalty": round(redundancy, _DECIMALS),
        "detour_penalty": round(_PENALTY * len(detours), _DECIMALS),
        "calls": len(chain),
    }
    score = Score(score_with(last), details, "; ".join(reasons) + ".", pairing=case.pairing(last.call))
    return with_unknown(score, work.unknown, score_with(at_best))


def _off_the_way(criteria: ChainCriteria, chain: Sequence[ScoredCall]) -> list[ScoredCall]:
    """The calls of tools that are neither expected nor prerequisites."""
    expected = listed_names(criteria.expected_tool) if criteria.expected_tool is not None else ()
    on_the_way = {name.lower() for name in (*criteria.valid_prerequisites, *expected)}
    return [call for call in chain if call.name.lower() not in on_the_way]


def _may_be_last(evidence: Evidence, criteria: ChainCriteria) -> Sequence[ScoredCall]:
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


def _chain_with_further_calls(
    evidence: Evidence, criteria: ChainCriteria, settings: ParamSettings, score: float
) -> ScoreRange:
    """Further calls make the chain longer; at best one of them is what was expected, and no call is repeated at once.

    Of the calls that are known, at most the last may be off the way without being a detour. At worst nothing is left.
    """
    chain = evidence.once(scored_calls)
    efficiency = min(1.0, criteria.optimal_hops / (len(chain) + 1))
    most = efficiency - _PENALTY * max(0, len(_off_the_way(criteria, chain)) - 1)
    return 0.0, max(score, round(most, _DECIMALS))


TOOL_SELECTION = _of_one_call(
    name="tool-selection",
    summary="Was the right tool chosen, or none where none was right?",
    Criteria=ToolCriteria,
    Settings=OccurrenceSettings,
    case=lambda criteria, settings: _Case(criteria.expected_tool, None, settings.occurrence, _NO_PARAMS),
    report=_report_tool,
    asks=frozenset(),
)
"""1 or 0, ignoring letter case: the first (or last) call is of the expected tool, or of one of several.

``null`` expects that nothing is called, an empty list is met by nothing. The other calls do not matter.
"""

PARAM_ACCURACY = _of_one_call(
    name="param-accuracy",
    summary="Does the call have the expected parameters?",
    Criteria=ParamCriteria,
    Settings=CallSettings,
    case=lambda criteria, settings: _Case([], criteria.expected_params, settings.occurrence, settings),
    report=_report_params,
    expected_calls=lambda case: None,  # of no particular tool
    never_scores=lambda criteria, settings: (
        "expected_params is null, so nothing is ever scored" if criteria.expected_params is None else None
    ),
)
"""The share of expected parameters that the first call (or the last) has with an expected value, whatever its tool.

Further parameters are free, and names count with their letter case. ``{}`` is met by any call, ``null`` is not scored.
Values are compared as ``scoring_config`` says; matchers say themselves what they take.
"""

OVERALL_SCORE = _of_one_call(
    name="overall-score",
    summary="Tool and parameters in one number: 0.6 for the tool, 0.4 for the parameters.",
    Criteria=CallCriteria,
    Settings=CallSettings,
    case=lambda criteria, settings: _Case(
        criteria.expected_tool, criteria.expected_params, settings.occurrence, settings
    ),
    report=_report_call,
)
"""The score is 0.6 * tool + 0.4 * parameters, and the tool alone where no parameters are expected.

A wrong tool with the right parameters keeps 0.4. The call is the first one, or the last; see `tool-selection` and
`param-accuracy` for how either is scored.
"""

TOOL_CASE = _of_one_call(
    name="tool-case",
    summary="One case of a tool-calling suite: the right tool with the right parameters, first of all.",
    Criteria=CaseCriteria,
    Settings=NoSettings,
    case=lambda criteria, settings: _Case(criteria.expected_tool, criteria.expected_params, "first", criteria),
    report=_report_call,
)
"""The case gives the tool, its parameters, and how they are compared, as a suite does.

Only the first call is scored, as `overall-score` scores it: of several calls of one message, the one that the message
names first. ``should_call_tool`` is implied by the expected tool; where it is said and the two disagree, the criteria
are refused.
"""

MULTI_TURN = Evaluator(
    name="multi-turn",
    summary="Did a chain of calls lead to the expected one, without detours and repeats?",
    Criteria=ChainCriteria,
    Settings=ParamSettings,
    score=_score_chain,
    expected_calls=lambda criteria, settings: _expected_calls(_chain_case(criteria, settings)),
    asks=frozenset({"arguments"}),
    with_further_calls=_chain_with_further_calls,
)
"""The score is completion * efficiency - redundancy - detours, within 0..1, and 0 for a chain without calls.

*completion* is `overall-score` of the last call; *efficiency* is the optimal number of calls over the number made, at
most 1; *redundancy* is 0.1 for each call of the tool that was called directly before, whatever the arguments; *detours*
are 0.1 for each call, but the last, of a tool that is neither expected nor a valid prerequisite, ignoring letter case.
All are rounded to four decimals.

Calls that one message asked for happened together, as did calls that overlap where no message is known. Of those
together at the end of the chain, the last is the expected call that scores best, or the best of all where none is
expected; the others count as calls on the way. Repeats are the fewest of any order among calls that happened together.

A suite stops at the message with an expected call; in a trace others may follow, and completion is then that of
whatever came last.
"""
