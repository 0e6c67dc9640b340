"""The final answer beside an expected one: whether it is that (exact-match), or how near it is (json-similarity)."""

from collections.abc import Callable
from typing import Annotated, TypeAlias, TypeVar

from pydantic import Field, WithJsonSchema

from tracegrade.evaluate.compare.differences import looked_up, origins_of
from tracegrade.evaluate.compare.final_answer import (
    WHOLE,
    Absent,
    AnswerSettings,
    Ends,
    absent_score,
    answered,
    ends_of,
    judge_lines,
    shown,
)
from tracegrade.evaluate.criteria.compile import compile_value
from tracegrade.evaluate.criteria.expected import Expected, ExpectedList, ExpectedObject, LiteralValue, Path
from tracegrade.evaluate.criteria.field_types import as_written, compiled_by
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, ParameterModel
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import decoded_container, json_text
from tracegrade.evaluate.unknown import answer_or_unknown, undecided, with_unknown
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Tri, Unknown, any_of

_NO_NUMBER = 1e-12  # an expected number nearer to 0 than this is 0
# The machine compares 64 characters with one at once; a step is some of those.
_CHARACTER_PAIRS_PER_STEP = 16_384

_ExpectedValue: TypeAlias = Annotated[
    Expected,
    compiled_by(lambda value, matchers: compile_value(value, matchers=matchers)),
    as_written,
    WithJsonSchema({}),
]


class Criteria(ParameterModel):
    """What is expected."""

    expected_output: Annotated[_ExpectedValue, Field(description="The answer: a text, or any JSON value.")]


class ExactSettings(AnswerSettings):
    """How it is compared."""

    case_sensitive: Annotated[bool, Field(description="Letter case counts in texts.")] = False
    negated: Annotated[bool, Field(description="1 when the answer is another one.")] = False
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


class SimilaritySettings(AnswerSettings):
    """Which part of the answer is judged."""

    default_evaluation_criteria: DefaultCriteria[Criteria] = None


S = TypeVar("S", bound=AnswerSettings)
_Judged: TypeAlias = tuple[Ends, dict[str, JsonValue], str]  # score, details beside both sides, explanation


def _by(
    judge_line: Callable[[str, str, S, Work], Ends],
    explain_lines: Callable[[float, S], str],
    judge_value: Callable[[Expected, JsonValue, S, Work], _Judged],
) -> Callable[[Evidence, Criteria, S], Score]:
    """A score that judges lines, or the value as a whole.

    `judge_value` takes the answer as the value that its JSON text is, where a value is expected; a matcher that the
    text itself meets comes to it with that text.
    """

    def score(evidence: Evidence, criteria: Criteria, settings: S) -> Score:
        answer = answer_or_unknown(evidence)
        if isinstance(answer, Unknown):
            return undecided(answer)
        actual = answered(answer, settings)
        if isinstance(actual, Absent):
            return absent_score(settings)
        expected = _expected_part(criteria.expected_output, settings)
        if evidence.final_answer is None and expected.source is None:
            actual = None  # null was expected, and is no text here
        work = Work(evidence=evidence)
        if settings.judges_lines and isinstance(expected.source, str) and isinstance(actual, str):
            ends, lines = judge_lines(
                expected.source, actual, settings, lambda wanted, found: judge_line(wanted, found, settings, work)
            )
            judged: _Judged = ends, {"lines": lines}, explain_lines(ends[0], settings)
        else:
            judged = judge_value(expected, actual, settings, work)
        (score, at_best), details, explanation = judged
        return with_unknown(Score(score, shown(expected, actual) | details, explanation), work.unknown, at_best)

    return score


def _expected_part(expected: Expected, settings: AnswerSettings) -> Expected:
    """What is expected of the judged part.

    Raises:
        EvaluatorError: ``invalid_criteria``, the expected answer has no such part.
    """
    if settings.target_output_key == WHOLE:
        return expected
    if isinstance(expected.source, str) and (container := decoded_container(expected.source)) is not None:
        expected = LiteralValue(container)
    parts = {key: _part_at(expected, key, path) for key, path in settings.paths}
    if isinstance(settings.target_output_key, str):
        return parts[settings.target_output_key]
    source: JsonValue = {key: part.source for key, part in parts.items()}
    literal = all(isinstance(part, LiteralValue) for part in parts.values())
    return LiteralValue(source) if literal else ExpectedObject(source, parts)


def _part_at(expected: Expected, key: str, path: Path) -> Expected:
    part = expected
    for step in path:
        opened = part.opened()
        if isinstance(opened, ExpectedObject) and isinstance(step, str) and step in opened.members:
            part = opened.members[step]
        elif isinstance(opened, ExpectedList) and isinstance(step, int) and step < len(opened.items):
            part = opened.items[step]
        else:
            raise EvaluatorError("invalid_criteria", f"expected_output has no part {key!r} (target_output_key)")
    return part


def _is_matcher(expected: Expected) -> bool:
    """Whether a matcher is expected of the value as a whole."""
    return not isinstance(expected.opened(), ExpectedObject | ExpectedList | LiteralValue)


def _meets_matcher(expected: Expected, actual: JsonValue, work: Work) -> Tri:
    """Whether the answer meets a matcher as the text that it is, or decoded."""
    met = expected.matches(actual, work)
    return True if met is True else any_of((met, expected.matches(_decoded(expected, actual), work)))


def _decoded(expected: Expected, actual: JsonValue) -> JsonValue:
    """The answer as the object or list that it is the JSON of, where one is expected."""
    if isinstance(actual, str) and isinstance(expected.source, dict | list):
        container = decoded_container(actual)
        return actual if container is None else container
    return actual


def _never_scores(criteria: Criteria, settings: AnswerSettings) -> str | None:
    """Which setting says nothing of a matcher."""
    if not _is_matcher(criteria.expected_output):
        return None
    if isinstance(settings, ExactSettings) and settings.case_sensitive:
        return "case_sensitive says nothing of a matcher; leave it out, or use {$regex: ...}, where letter case counts"
    if settings.judges_lines:
        return "line_by_line_evaluator is of texts, and a matcher is met by the whole answer or not; leave it out"
    return None


def _judge_same_line(wanted: str, found: str, settings: ExactSettings, work: Work) -> Ends:
    return ends_of(_is_same(LiteralValue(wanted), found, settings, work), work, negated=settings.negated)


def _judge_same(expected: Expected, actual: JsonValue, settings: ExactSettings, work: Work) -> _Judged:
    if _is_matcher(expected):
        same = _meets_matcher(expected, actual, work)
    else:
        same = _is_same(expected, _decoded(expected, actual), settings, work)
    score, at_best = ends_of(same, work, negated=settings.negated)
    details = {} if score == 1 else looked_up(list(expected.lookups(work)))
    said = _explain_same(score, settings).removesuffix(".")
    return (score, at_best), details, "; ".join([said, *origins_of([details])]) + "."


def _is_same(expected: Expected, actual: JsonValue, settings: ExactSettings, work: Work) -> Tri:
    if not isinstance(expected, LiteralValue) or not (isinstance(actual, str) or isinstance(expected.source, str)):
        return expected.matches(actual, work)
    wanted, found = json_text(expected.source), json_text(actual)
    work.spend(1 + (len(wanted) + len(found)) // CHARACTERS_READ_PER_STEP)
    is_same = wanted == found if settings.case_sensitive else wanted.lower() == found.lower()
    return True if is_same else work.hides(found)


def _explain_same(score: float, settings: ExactSettings) -> str:
    if score not in (0.0, 1.0):
        return "Some lines of the answer equal the expected ones."
    verb = "equals" if (score == 1) is not settings.negated else "differs from"
    return f"The answer {verb} the {'forbidden' if settings.negated else 'expected'} one."


def _sentences(criteria: Criteria, settings: ExactSettings) -> list[str]:
    said = criteria.expected_output.in_words()
    return [f"the final answer is not one that {said}" if settings.negated else f"the final answer {said}"]


def _judge_leaves(expected: Expected, actual: JsonValue, settings: SimilaritySettings, work: Work) -> _Judged:
    if _is_matcher(expected):
        (matched, at_best), total = work.ends(_meets_matcher(expected, actual, work)), 1
    else:
        (matched, at_best), total = _leaves(expected, _decoded(expected, actual), work)
    text = f"{matched:.2f} of {total} expected {'value matches' if total == 1 else 'values match'}."
    details: dict[str, JsonValue] = {"matched_leaves": matched, "total_leaves": float(total)}
    ends = (min(1.0, matched / total), min(1.0, at_best / total)) if total else (1.0, 1.0)
    return ends, details, text


def _leaves(expected: Expected, actual: JsonValue, work: Work) -> tuple[Ends, int]:
    """How much of the expected leaves matches, and how many there are; no recursion."""
    matched, at_best, total = 0.0, 0.0, 0
    pairs: list[tuple[Expected, JsonValue, bool]] = [(expected, actual, True)]
    while pairs:
        wanted, found, there = pairs.pop()
        work.spend()
        opened = wanted.opened()
        if isinstance(opened, ExpectedObject):
            inside = found if there and isinstance(found, dict) else {}
            pairs.extend((member, inside.get(key), key in inside) for key, member in opened.members.items())
        elif isinstance(opened, ExpectedList):
            items = found if there and isinstance(found, list) else []
            pairs.extend(
                (item, items[i] if i < len(items) else None, i < len(items)) for i, item in enumerate(opened.items)
            )
        else:
            total += 1
            least, most = _leaf(opened, found, work) if there else (0.0, 0.0)
            matched, at_best = matched + least, at_best + most
    return (matched, at_best), total


def _leaf(expected: Expected, actual: JsonValue, work: Work) -> Ends:
    wanted, score = expected.source, 0.0
    if not isinstance(expected, LiteralValue) or isinstance(wanted, bool) or wanted is None:
        return work.ends(expected.matches(actual, work))
    if isinstance(wanted, str):
        score = _text_similarity(wanted, actual, work) if isinstance(actual, str) else 0.0
    elif (
        not isinstance(wanted, dict | list | bool) and isinstance(actual, int | float) and not isinstance(actual, bool)
    ):
        score = _number_similarity(wanted, actual)
    return score, score


def _number_similarity(expected: float | int, actual: float | int) -> float:
    if abs(expected) <= _NO_NUMBER:
        return float(abs(actual) <= _NO_NUMBER)
    if expected == actual:
        return 1.0
    try:
        return max(0.0, 1 - abs(expected - actual) / abs(expected))
    except OverflowError:  # one is beyond what a float holds, so they are far apart
        return 0.0


def _text_similarity(left: str, right: str, work: Work) -> float:
    """1 - edits (insert, delete, replace) / length of the longer; two empty texts are alike.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    from rapidfuzz.distance import Levenshtein  # 40 ms, for the rules that say so

    work.spend(1 + len(left) * len(right) // _CHARACTER_PAIRS_PER_STEP)
    return Levenshtein.normalized_similarity(left, right)


EXACT_MATCH = Evaluator(
    name="exact-match",
    summary="Is the final answer the expected one?",
    Criteria=Criteria,
    Settings=ExactSettings,
    score=_by(_judge_same_line, _explain_same, _judge_same),
    with_further_calls=same_score,
    sentences=_sentences,
    settings_said=frozenset({"negated"}),
    never_scores=_never_scores,
    asks=frozenset({"final_answer"}),
)
"""1 or 0, with ``negated`` the other way round.

If either side is a text, both are compared as text, ignoring letter case unless ``case_sensitive``; else as
JSON values. If the answer is the JSON text of an object or a list, and an object or list is expected, these are
compared. A matcher is met by the text, or by the value whose JSON text it is.
"""

JSON_SIMILARITY = Evaluator(
    name="json-similarity",
    summary="How near is the final answer to the expected one, leaf by leaf?",
    Criteria=Criteria,
    Settings=SimilaritySettings,
    score=_by(
        lambda wanted, found, settings, work: (_text_similarity(wanted, found, work),) * 2,
        lambda score, settings: "The answer was compared line by line.",
        _judge_leaves,
    ),
    with_further_calls=same_score,
    never_scores=_never_scores,
    reads=frozenset({"final_answer"}),
)
"""The share of the expected value's leaves that match.

A number matches by 1 - |expected - actual| / |expected|, at least
0 (0 is matched by 0 alone); a text by 1 - edits / length of the longer; true, false and null when equal. What is of
another type matches none of its leaves; further members and items are free, lists are compared by position. Nothing
expected is 1. A matcher is one leaf.
"""
