"""What an evaluator is: a pure function of what happened and what was expected, and the schema of its parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ValidationError,
)

from tracegrade.document.document import Document
from tracegrade.document.validate import problems
from tracegrade.evaluate.call_facts import may_hold_further, unread_call
from tracegrade.evaluate.compare.expected_calls import ExpectedCall, ExpectedCalls
from tracegrade.evaluate.criteria.compile import LITERAL, MATCHERS
from tracegrade.evaluate.criteria.parameters import NotedSettings, ParameterModel
from tracegrade.evaluate.errors import ErrorType, EvaluatorError
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.pairing.by_name import PairingWord
from tracegrade.evaluate.unknown import answer_or_unknown, redacted_names, unknown_parts
from tracegrade.model.evaluation import Pairing
from tracegrade.model.range import Range
from tracegrade.model.stand_ins import is_hashed
from tracegrade.model.tri import Unknown

# With what evaluators of other packages need beside it.
__all__ = [
    "Evaluator",
    "Evidence",
    "ExpectedCall",
    "ExpectedCalls",
    "NotedSettings",
    "Pairing",
    "ParameterModel",
    "Range",
    "Reads",
    "Score",
    "any_score",
    "same_score",
    "share_of_expected",
]

Reads: TypeAlias = CallPart | Literal["final_answer"]

_PARTS: tuple[CallPart, ...] = ("arguments", "output")
_THE_ANSWER = frozenset({"final_answer"})
_REMOVED = ("compared", "knows_unknown", "pairs_in_turn", "reads_failures")


ScoreRange: TypeAlias = tuple[float, float]
"""The least and the most that a score can be."""

BELOW_ONE = 1 - 1e-6
"""The most that a share can be of which one part is missing, however many others there are."""


def any_score(evidence: Evidence, criteria: object, settings: object, score: float) -> ScoreRange:
    """As `Evaluator.with_further_calls`, of an evaluator that further calls may bring to any score."""
    return 0.0, 1.0


def same_score(evidence: Evidence, criteria: object, settings: object, score: float) -> ScoreRange:
    """The same, of an evaluator that reads no calls, or itself says what further calls leave open."""
    return score, score


def share_of_calls(evidence: Evidence, criteria: object, settings: object, score: float) -> ScoreRange:
    """The same, of an evaluator whose score is the share of calls that are right."""
    return 0.0, 1.0 if score == 1.0 else BELOW_ONE


def share_of_expected(score: float, pairing: PairingWord, *, expects_calls: bool) -> ScoreRange:
    """The same, where the score is the share of expected calls that were made: further calls take none of them away.

    That is so with every pairing that takes any call which fits, also where an expected call takes the first: as a call
    is added, none has fewer left to choose from. Compared by position, a call may be moved to another place. Where none
    is expected, a further call is one too many.
    """
    if not expects_calls:
        return 0.0, score
    return (0.0, 1.0) if pairing == "positional" else (score, 1.0)


C = TypeVar("C", bound=ParameterModel)  # criteria
S = TypeVar("S", bound=ParameterModel)  # settings
Parameters = TypeVar("Parameters", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator(Generic[C, S]):
    """One evaluator, as the registry holds it.

    Attributes:
        name: its id in rules and results, such as ``tool-call-order``.
        summary: what it judges, in one sentence.
        Criteria: what is expected; the fields of a rule's item that are not settings.
        Settings: how it is compared; all have defaults. ``default_evaluation_criteria``, where an evaluator has it,
            is what is expected when no criteria are given.
        score: the judgement itself; pure. Raises EvaluatorError, ``work_bound``.
        reads: what its function reads beyond the names of calls, as it is: where one of these is unknown, of any call,
            it is not called.
        asks: what it asks of `tracegrade.evaluate.unknown`, where the answer is a value or an `Unknown`.
        never_scores: why, with these criteria and settings, nothing could ever be scored, or not as they say; a rule of
            which that is said is refused.
        expected_calls: the calls that these criteria expect, which the page shows beside the calls made, paired as
            `Score.pairing` says; None for an evaluator that expects no particular calls.
        sentences: the criteria as a person would say them, a sentence each, where the JSON of them says it worse.
        settings_said: the settings of which `sentences` say all that there is to say.
        pairing: how calls are paired with several expected calls of one tool; None if no tool has several, or if their
            order says it.
        contended: two expected calls, by their indexes, that one call may meet though they do not expect the same; None
            if there are none. Asked with the pairing "first".
        with_further_calls: the least and the most that its score can be if further calls were made, of any tools, than
            those of the evidence; asked with the score, where work of the agent could not be read.
        attributes: span attributes that it needs beyond those that extraction reads.
        attributes_of: those that these criteria need.
    """

    name: str
    summary: str
    Criteria: type[C]
    Settings: type[S]
    score: Callable[[Evidence, C, S], Score]
    reads: frozenset[Reads] = frozenset()
    asks: frozenset[Reads] = frozenset()
    never_scores: Callable[[C, S], str | None] = lambda criteria, settings: None
    expected_calls: Callable[[C, S], ExpectedCalls | None] = lambda criteria, settings: None
    sentences: Callable[[C, S], Sequence[str]] = lambda criteria, settings: ()
    settings_said: frozenset[str] = frozenset()
    pairing: Callable[[C, S], PairingWord | None] = lambda criteria, settings: None
    contended: Callable[[C, S], tuple[int, int] | None] = lambda criteria, settings: None
    with_further_calls: Callable[[Evidence, C, S, float], ScoreRange] = any_score
    attributes: frozenset[str] = frozenset()
    attributes_of: Callable[[C], frozenset[str]] = lambda criteria: frozenset()

    def __new__(cls, **declared: Any) -> Self:
        """Refuse what evaluators no longer declare.

        Raises:
            TypeError: one of these is declared.
        """
        if found := [name for name in _REMOVED if name in declared]:
            raise TypeError(f"{found[0]} is no longer declared; docs/extend/evaluator.md says what to do in its place")
        return object.__new__(cls)  # with slots, the class is made anew, and `super` knows the first one

    def evaluate(self, evidence: Evidence, criteria: C | None, settings: S) -> Score:
        """Judge `evidence`.

        Where something is unknown that the evaluator takes as it is, there is no score, and the explanation says what.
        By hand (``as_given``), nothing is unknown. Work that could not be read widens the range of the score.

        Raises:
            EvaluatorError: ``no_criteria``; ``work_bound``.
        """
        if criteria is None:
            criteria = self.criteria_in_force(criteria, settings)
        if (unknown := self._unknown(evidence)) is not None:
            return Score(None, {}, sentence(unknown))
        score = self.score(evidence, criteria, settings)
        if score.score is None or not evidence.once(may_hold_further) or (unread := unread_call(evidence)) is None:
            return score
        why = sentence(unread)
        if any(flow.looks_at_one for flow in criteria.flows):
            return score.with_range(Range(0.0, 1.0, why))
        further = self.with_further_calls(evidence, criteria, settings, score.score)
        return score.with_range(score.ends.widened(*further, why))

    def _unknown(self, evidence: Evidence) -> Unknown | None:
        """What the evaluator takes as it is and cannot be read, the first call first; None where all can."""
        if evidence.as_given:
            return None
        reads = self.reads
        if not reads and not evidence.redacted:
            return None
        if evidence.redacted and reads | self.asks != _THE_ANSWER:
            (nameless,) = evidence.once(redacted_names)
            if nameless is not None:
                return nameless
        if "final_answer" in reads:
            answer = answer_or_unknown(evidence)
            if isinstance(answer, Unknown):
                return answer
            if evidence.redacted and is_hashed(answer):
                return Unknown("hashed", "final_answer")
        found = [why for part in _PARTS if part in reads for why in unknown_parts(evidence, part).values()]
        return min(found, key=lambda why: why.position or 0, default=None)

    def criteria_in_force(self, criteria: C | None, settings: S) -> C:
        """The criteria given, whole; else the settings' default; else all the criteria's own defaults.

        Raises:
            EvaluatorError: ``no_criteria``, there is neither, and a criterion without default.
        """
        if criteria is not None:
            return criteria
        default: C | None = getattr(settings, "default_evaluation_criteria", None)
        if default is not None:
            return default
        if required := [name for name, field in self.Criteria.model_fields.items() if field.is_required()]:
            raise EvaluatorError(
                "no_criteria",
                f"{self.name}: no evaluation criteria; give {', '.join(required)}, "
                "or default_evaluation_criteria in the settings",
            )
        return self.Criteria()

    def read_criteria(self, value: Any, *, matchers: bool = True) -> C:
        """Criteria from JSON; objects of ``$`` keys are literal unless `matchers`.

        Raises:
            EvaluatorError: ``invalid_criteria``.
        """
        return _validated(self.Criteria, value, f"{self.name}: criteria", "invalid_criteria", matchers)

    def read_settings(self, value: Any, *, matchers: bool = True) -> S:
        """Settings from JSON; of a default for the criteria as in `read_criteria`.

        Raises:
            EvaluatorError: ``invalid_config``, or ``invalid_criteria`` for the default criteria.
        """
        return _validated(self.Settings, value, f"{self.name}: config", "invalid_config", matchers)


_DEFAULT_CRITERIA = (("default_evaluation_criteria",), ("defaultEvaluationCriteria",))


def _validated(model: type[Parameters], value: Any, where: str, type: ErrorType, matchers: bool) -> Parameters:
    try:
        return model.model_validate(value, context=MATCHERS if matchers else LITERAL)
    except ValidationError as error:
        if all(item["loc"][:1] in _DEFAULT_CRITERIA for item in error.errors()):
            type = "invalid_criteria"
        found = problems(Document(where, value), error, model)
        raise EvaluatorError(type, f"{where}: " + "; ".join(problem.message for problem in found)) from None
