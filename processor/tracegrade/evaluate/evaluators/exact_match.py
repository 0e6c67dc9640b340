"""exact-match: is the final answer the expected one? 1 or 0, with ``negated`` the other way round.

If either side is a text, both are compared as text, ignoring letter case unless ``case_sensitive``; else as
JSON values. If the answer is the JSON text of an object or a list, and an object or list is expected, these are
compared. A matcher is met by the text, or by the value whose JSON text it is.
"""

from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.compare.differences import looked_up, origins_of
from tracegrade.evaluate.compare.final_answer import (
    AnswerSettings,
    OutputCriteria,
    absent_score,
    compared,
    is_matcher,
    judge_lines,
    unread_settings,
)
from tracegrade.evaluate.criteria.expected import Expected, LiteralValue
from tracegrade.evaluate.criteria.expected_words import in_words
from tracegrade.evaluate.criteria.parameters import DefaultCriteria
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import json_text
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue


class Settings(AnswerSettings):
    """How it is compared."""

    case_sensitive: Annotated[bool, Field(description="Letter case counts in texts.")] = False
    negated: Annotated[bool, Field(description="1 when the answer is another one.")] = False
    default_evaluation_criteria: DefaultCriteria[OutputCriteria] = None


def _score(evidence: Evidence, criteria: OutputCriteria, settings: Settings) -> Score:
    sides = compared(evidence, criteria, settings)
    if sides is None:
        return absent_score(settings)
    work = Work(evidence=evidence)
    details = sides.details
    if (lines := sides.lines(settings)) is not None:
        score, details["lines"] = judge_lines(
            *lines, settings, lambda wanted, found: _judged(LiteralValue(wanted), found, settings, work)
        )
    else:
        same = sides.meets_matcher(work) or _is_same(sides.expected, sides.decoded(), settings, work)
        score = float(same is not settings.negated)
        details |= {} if score == 1 else looked_up(list(sides.expected.lookups(work)))
    return Score(score, details, "; ".join([_explain(score, settings), *origins_of([details])]) + ".")


def _judged(expected: Expected, actual: JsonValue, settings: Settings, work: Work) -> float:
    return float(_is_same(expected, actual, settings, work) is not settings.negated)


def _is_same(expected: Expected, actual: JsonValue, settings: Settings, work: Work) -> bool:
    if not isinstance(expected, LiteralValue):
        return expected.matches(actual, work)
    if not isinstance(actual, str) and not isinstance(expected.source, str):
        return expected.matches(actual, work)
    wanted, found = json_text(expected.source), json_text(actual)
    work.spend(1 + (len(wanted) + len(found)) // CHARACTERS_READ_PER_STEP)
    is_same = wanted == found if settings.case_sensitive else wanted.lower() == found.lower()
    return is_same or work.cannot_tell(found)


def _explain(score: float, settings: Settings) -> str:
    what = "a forbidden one" if settings.negated else "the expected one"
    if score in (0.0, 1.0):
        return f"The answer is {what}" if (score == 1) is not settings.negated else f"The answer is not {what}"
    return "Some lines of the answer are the expected ones"


def _unread_settings(criteria: OutputCriteria, settings: Settings) -> str | None:
    if settings.case_sensitive and is_matcher(criteria.expected_output):
        return "case_sensitive says nothing of a matcher; leave it out, or use {$regex: ...}, where letter case counts"
    return unread_settings(criteria, settings)


def _sentences(criteria: OutputCriteria, settings: Settings) -> list[str]:
    said = in_words(criteria.expected_output)
    return [f"the final answer is not one that {said}" if settings.negated else f"the final answer {said}"]


EVALUATOR = Evaluator(
    name="exact-match",
    summary="Is the final answer the expected one?",
    Criteria=OutputCriteria,
    Settings=Settings,
    score=_score,
    with_further_calls=same_score,
    sentences=_sentences,
    settings_said=frozenset({"negated"}),
    never_scores=_unread_settings,
    reads=frozenset({"final_answer"}),
    knows_unknown=True,
)
