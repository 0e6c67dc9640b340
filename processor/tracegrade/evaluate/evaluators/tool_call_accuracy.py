"""tool-call-accuracy: how close are the calls made to the reference calls, both ways (F1)?

Each call made is paired with a reference call that it fits well enough, and none with two. Precision is the share of
calls that have one, recall the share of reference calls that have one, the score their harmonic mean. Order never
matters.

How well a call fits: not at all when the names differ. ``strict``: wholly when the arguments are equal, else not at
all. ``flexible``: the share of the reference's arguments that the call has with an equal value (further arguments are
free), which must reach ``argument_match_threshold``; a reference without arguments fits a call without wholly, a call
with some by half. What does not fit at all is never paired. Without reference calls there is nothing to score; without
calls the score is 0.

``pairing`` decides between several calls of one tool. With ``first``, each call made, in order, takes the unused
reference call that it fits best (the earlier one of equals), and none is given back. With ``best``, as many as possible
are paired. With ``positional``, the second reference call of a name is compared with the second call of that name.
``first`` is the default where all values of the reference are literal, as they are in Ragas; as soon as one is a
matcher, or compared by ``values``, ``best`` is.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from tracegrade.display import count
from tracegrade.evaluate.compare.differences import listed_differences, origins_of, paths_of
from tracegrade.evaluate.compare.expected_calls import CompiledNames, ExpectedCalls, reference_calls
from tracegrade.evaluate.compare.score_band import score_band
from tracegrade.evaluate.criteria.expected import Difference, ExpectedObject, differences
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.reference_call import ReferenceCall
from tracegrade.evaluate.criteria.value_modes import ComparedValues
from tracegrade.evaluate.evaluator import Evaluator, ScoreRange
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.pairing.by_name import (
    PAIRINGS,
    TOO_MANY,
    Matches,
    PairingWord,
    candidates_by_name,
    first_contended,
    in_step,
    may_contend,
    may_contend_in_part,
    pairing_in_force,
    scan,
    with_next_unused,
)
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.unknown import Arguments, arguments_or_unknown, in_both_readings
from tracegrade.evaluate.wording import MAX_LISTED, agreeing, all_of, listed
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range
from tracegrade.model.tri import Unknown

# How well the arguments of a call made fit, from 0 to 1.
Fit: TypeAlias = Callable[[Arguments | Unknown, Work], float]

# What a call with arguments is worth to a reference without.
_UNASKED_ARGUMENTS = 0.5


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


Mode: TypeAlias = Annotated[
    Literal["strict", "flexible"],
    BeforeValidator(_lower),
    WithJsonSchema({"enum": ["strict", "flexible", "STRICT", "FLEXIBLE"]}),
]


class Criteria(ComparedValues):
    """What is expected."""

    reference_tool_calls: Annotated[
        list[ReferenceCall] | None, Field(description="The calls, in any order; without any nothing is scored.")
    ] = None

    @cached_property
    def expected(self) -> CompiledNames:
        """The names of the calls."""
        return CompiledNames([call.name for call in self.reference_tool_calls or ()])

    @cached_property
    def wholly(self) -> Sequence[Matches[Arguments | Unknown]]:
        """Whether arguments fit each call, strictly."""
        return [call.args.accepts for call in self.reference_tool_calls or ()]

    @cached_property
    def partly(self) -> Sequence[Fit]:
        """How well arguments fit each call, flexibly."""
        return [partial(_share, call.args) for call in self.reference_tool_calls or ()]

    @cached_property
    def partly_whole(self) -> Sequence[Matches[Arguments | Unknown]]:
        """Whether arguments fit each call as well as can be, flexibly."""
        references = [call.args for call in self.reference_tool_calls or ()]
        return [args.accepts_within if args.members else args.accepts for args in references]

    def enough(self, share: float) -> Sequence[Matches[Arguments | Unknown]]:
        """Whether arguments fit each call by at least that share, flexibly."""

        def fits(fit: Fit, actual: Arguments | Unknown, work: Work) -> bool:
            found = fit(actual, work)
            return found > 0 and found >= share

        return [partial(fits, fit) for fit in self.partly]

    @cached_property
    def all_made(self) -> Score:
        """The score of these calls and no others."""
        count = len(self.expected.names)
        return _score_of(self.expected.in_step, count, [], [])


class Settings(ParameterModel):
    """How it is compared."""

    mode: Annotated[Mode, Field(description="strict: equal arguments; flexible: enough of them.")] = "strict"
    argument_match_threshold: Annotated[
        float, Field(ge=0, le=1, description="flexible: the share of a reference's arguments that is enough.")
    ] = 0.8
    pairing: Annotated[
        PairingWord | None,
        Field(
            description="Calls of one name: each takes the best reference left, as many as possible, or the second "
            "with the second; first if omitted, or best with matchers."
        ),
    ] = None


def _judge(
    evidence: Evidence, criteria: Criteria, settings: Settings, optimistic: bool
) -> tuple[Score, Unknown | None]:
    references = criteria.reference_tool_calls
    if not references:
        return Score(None, {}, "There are no reference calls, so there is nothing to score."), None
    actual = evidence.once(arguments_or_unknown)
    whole = criteria.partly_whole if settings.mode == "flexible" else criteria.wholly
    work = in_step(criteria.expected.names, whole, evidence, actual, optimistic=optimistic, steps=0)
    if work is not None:
        return criteria.all_made, work.unknown
    work = Work(evidence=evidence, optimistic=optimistic)
    pairing = _align(criteria, evidence, settings, work)
    taken_by = pairing.positions
    uncalled: list[str] = []
    found: list[JsonValue] = []
    if None in taken_by:
        names, keys = criteria.expected.names, criteria.expected.keys
        shown = with_next_unused(candidates_by_name(names, evidence), taken_by)
        uncalled = [name for name, position in zip(names, shown, strict=True) if position is None]
        found = listed_differences(
            "args",
            (
                (keys[i], _differences(references[i], position, actual, settings, work))
                for i, position in enumerate(shown)
                if position is not None and taken_by[i] is None
            ),
        )
    return _score_of(pairing, len(actual), uncalled, found), work.unknown


def _score_of(pairing: Pairing, calls: int, uncalled: list[str], found: list[JsonValue]) -> Score:
    """The score of that many calls made, when they are paired so with the reference calls."""
    taken_by, _, more = pairing
    references = len(taken_by)
    matched = references - taken_by.count(None)
    precision = matched / calls if calls else 0.0
    recall = matched / references
    score = _f1(matched, calls, references)
    takers = set(taken_by)
    details: dict[str, JsonValue] = {
        "true_positives": matched,
        "precision": precision,
        "recall": recall,
        "matched": [position in takers for position in range(min(calls, MAX_LISTED))],
        "band": score_band(score),
        "differences": found,
    }
    text = _explain(matched, calls, references, uncalled, found)
    ends = Range(score, _f1(matched + more, calls, references), TOO_MANY) if more else None
    return Score(score, details, text, range=ends, pairing=pairing)


def _f1(matched: float, calls: int, references: int) -> float:
    if not matched:
        return 0.0
    precision, recall = matched / calls, matched / references
    return 2 * precision * recall / (precision + recall)


def _pairing(criteria: Criteria, settings: Settings) -> PairingWord:
    return pairing_in_force(settings.pairing, criteria)


def _align(criteria: Criteria, evidence: Evidence, settings: Settings, work: Work) -> Pairing:
    """For each reference call the position of the call that took it."""
    actual = evidence.once(arguments_or_unknown)
    pairing = _pairing(criteria, settings)
    if pairing == "first":
        taken_by = _scan(criteria, evidence, actual, settings, work)
        if criteria.expected.names_one_twice:
            work.unbind()
        if None not in taken_by or not evidence.once(Timeline).has_ties:
            return Pairing(taken_by)
        pairing = "best"  # which is what some order of the tied calls gives
    wanted = criteria.wholly if settings.mode == "strict" else criteria.enough(settings.argument_match_threshold)
    return PAIRINGS[pairing](criteria.expected.names, wanted, evidence, actual, work)


def _scan(
    criteria: Criteria, evidence: Evidence, actual: Sequence[Arguments | Unknown], settings: Settings, work: Work
) -> list[int | None]:
    """The same where each call made, in order, takes the reference call left that it fits best."""
    fits: Sequence[Fit] = criteria.wholly
    enough = 1.0
    if settings.mode == "flexible":
        fits, enough = criteria.partly, settings.argument_match_threshold

    def fit(position: int, index: int) -> float:
        work.position = position
        found = fits[index](actual[position], work)
        return found if found >= enough else 0.0

    of_name = criteria.expected.by_name
    taken, _ = scan([of_name.get(call.name, ()) for call in evidence.calls], fit, work)
    taken_by: list[int | None] = [None] * len(criteria.expected.names)
    for position, index in enumerate(taken):
        if index is not None:
            taken_by[index] = position
    return taken_by


def _share(expected: ExpectedObject, actual: Arguments | Unknown, work: Work) -> float:
    work.left -= 1  # the bound is asked for by what follows
    if isinstance(actual, Unknown):
        return float(work.takes(actual))
    matched = expected.matched_members(actual, work)
    if members := len(expected.members):
        return matched / members
    return _UNASKED_ARGUMENTS if actual else 1.0


def _differences(
    reference: ReferenceCall, position: int, actual: Sequence[Arguments | Unknown], settings: Settings, work: Work
) -> Iterator[Difference]:
    work.position = position
    # Further arguments are free, unless there should be none at all.
    partly = settings.mode == "flexible" and bool(reference.args.members)
    given = actual[position]
    if not isinstance(given, Unknown):
        yield from differences(reference.args, given, work, partly=partly)


def _explain(matched: int, actual: int, references: int, uncalled: list[str], differ: list[JsonValue]) -> str:
    if matched == actual == references:
        return f"{all_of(references, 'reference call')} made, and no other."
    reasons = [
        f"{matched} of {count(actual, 'call')} {agreeing(matched, 'matches', 'match')} "
        f"the {count(references, 'reference call')}"
    ]
    reasons += [f"missing: {listed(uncalled)}"] if uncalled else []
    reasons += [f"mismatched: {listed(paths_of(differ))}", *origins_of(differ)] if differ else []
    return "; ".join(reasons) + "."


def _contended(criteria: Criteria, settings: Settings) -> tuple[int, int] | None:
    args = [call.args for call in criteria.reference_tool_calls or ()]
    enough = settings.argument_match_threshold

    def contend(one: int, other: int) -> bool:
        if settings.mode == "flexible":
            return may_contend_in_part(args[one], args[other], enough)
        return may_contend(args[one], args[other])

    return first_contended(criteria.expected.names, contend)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    return reference_calls(criteria.reference_tool_calls)


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    """Every further call may be one too many, or a reference call that lacks."""
    calls, references = len(evidence.calls), len(criteria.reference_tool_calls or ())
    fit = min(calls, references)
    if _pairing(criteria, settings) == "best":  # of others, further calls may let more of the known ones fit
        fit = round(score * (calls + references) / 2)
    return 0.0, max(score, 2 * references / (calls + references + references - fit))


EVALUATOR = Evaluator(
    name="tool-call-accuracy",
    summary="How close are the calls made to the reference calls, both ways (F1)?",
    Criteria=Criteria,
    Settings=Settings,
    asks=frozenset({"arguments"}),
    pairing=lambda criteria, settings: _pairing(criteria, settings) if criteria.expected.names_one_twice else None,
    contended=_contended,
    score=in_both_readings(_judge),
    expected_calls=_expected_calls,
    with_further_calls=_with_further_calls,
    never_scores=lambda criteria, settings: (
        None if criteria.reference_tool_calls else "there are no reference_tool_calls, so nothing is ever scored"
    ),
)
