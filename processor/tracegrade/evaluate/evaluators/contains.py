"""contains: is a text in the final answer? 1 or 0, with ``negated`` the other way round; an object is its JSON text.

Instead of the text, ``{$from: lookup_order.output.id}`` says where it comes from: one of the values that stand there
has to be in the answer, as whole words or a whole number, in any letter case. ``{$regex: ...}`` is a pattern to find,
and ``{$secret: true}`` is met by any secret.
"""

from typing import Annotated, TypeAlias

from pydantic import Field, WithJsonSchema

from tracegrade.evaluate.compare.differences import looked_up, origins_of
from tracegrade.evaluate.compare.final_answer import (
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
from tracegrade.evaluate.criteria.data_flow import FromMatcher
from tracegrade.evaluate.criteria.expected import Expected, LiteralValue, MatcherError
from tracegrade.evaluate.criteria.field_types import as_written, compiled_by
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, ParameterModel
from tracegrade.evaluate.criteria.text_matchers import RegexMatcher
from tracegrade.evaluate.criteria.value_matchers import SecretMatcher
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import excerpt, json_text
from tracegrade.evaluate.unknown import answer_or_unknown, undecided, with_unknown
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Unknown


def _text_to_find(value: JsonValue, matchers: bool) -> Expected:
    expected = compile_value(value, matchers=matchers) if isinstance(value, str | dict) else LiteralValue(value)
    if isinstance(expected, FromMatcher):
        for source in expected.sources:
            if not source.path:
                raise MatcherError((), f"expected a path to one value, such as TOOL.output.id, found {source.text!r}")
    elif type(expected) not in (RegexMatcher, SecretMatcher) and not isinstance(expected.source, str):
        raise MatcherError(
            (),
            "expected a text, {$from: TOOL.output.PATH}, {$regex: ...} or {$secret: true}, "
            f"found {expected.text}",
        )
    return expected


_TextToFind: TypeAlias = Annotated[
    Expected, compiled_by(_text_to_find), as_written, WithJsonSchema({"type": ["string", "object"]})
]


class Criteria(ParameterModel):
    """What is expected."""

    search_text: Annotated[
        _TextToFind,
        Field(
            description="The text to find, `{$from: ...}` for where it is from, `{$regex: ...}` or `{$secret: true}`."
        ),
    ]


class Settings(AnswerSettings):
    """How it is compared."""

    case_sensitive: Annotated[bool, Field(description="Letter case counts.")] = False
    negated: Annotated[bool, Field(description="1 when the text is not there.")] = False
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    answer = answer_or_unknown(evidence)
    if isinstance(answer, Unknown):
        return undecided(answer)
    actual = answered(answer, settings)
    if isinstance(actual, Absent):
        return absent_score(settings)
    text, expected = json_text(actual), criteria.search_text
    if not isinstance(expected.source, str):
        return _of_matcher(expected, text, evidence, settings)
    wanted_text = expected.source
    work = Work(evidence=evidence)
    work.spend((len(text) + len(wanted_text)) // CHARACTERS_READ_PER_STEP)

    def judge(wanted: str, found: str) -> Ends:
        may_hold = work.hides(found)
        if not settings.case_sensitive:
            wanted, found = wanted.lower(), found.lower()
        return ends_of(True if wanted in work.known(found) else may_hold, work, negated=settings.negated)

    details = shown(wanted_text, actual)
    if settings.judges_lines:
        (score, at_best), details["lines"] = judge_lines(wanted_text, text, settings, judge)
    else:
        score, at_best = judge(wanted_text, text)
    is_there = (score == 1) is not settings.negated
    said = f"The answer {'contains' if is_there else 'does not contain'} {excerpt(wanted_text)}"
    text = f"{said}, which is forbidden." if is_there and settings.negated else f"{said}."
    return with_unknown(Score(score, details, text), work.unknown, at_best)


def _of_matcher(expected: Expected, text: str, evidence: Evidence, settings: Settings) -> Score:
    work = Work(evidence=evidence)
    found = expected.stands_in(text, work) if isinstance(expected, FromMatcher) else expected.matches(text, work)
    is_there = found is True
    score, at_best = ends_of(found, work, negated=settings.negated)
    details = shown(expected, text)
    if settings.negated:
        said = ["The answer contains something forbidden" if is_there else "The answer contains nothing forbidden"]
    else:
        said = [f"The answer {'contains' if is_there else 'does not contain'} what was expected"]
    if score < 1:
        details |= looked_up(list(expected.lookups(work)))
        said += origins_of([details])
    return with_unknown(Score(score, details, "; ".join(said) + "."), work.unknown, at_best)


def _unread_settings(criteria: Criteria, settings: Settings) -> str | None:
    if isinstance(criteria.search_text.source, str):
        return None
    if settings.judges_lines:
        return "line_by_line_evaluator is of texts, and a matcher is met by the whole answer or not; leave it out"
    if settings.case_sensitive:
        return "case_sensitive says nothing of a matcher; leave it out"
    return None


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    expected = criteria.search_text
    said = expected.in_words().removeprefix("is ")
    if isinstance(expected.source, str):
        letters = "" if settings.case_sensitive else ", in small letters or capitals"
        return [f"the final answer {'does not contain' if settings.negated else 'contains'} {said}{letters}"]
    if isinstance(expected, FromMatcher):
        what = said if said.startswith("what ") else f"what is {said}"
        return [f"the final answer {'does not contain' if settings.negated else 'contains'} {what}"]
    said = said.replace("has a part", "has no part", 1) if settings.negated else said
    return [f"the final answer {said}"]


EVALUATOR = Evaluator(
    name="contains",
    summary="Is a text in the final answer?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    with_further_calls=same_score,
    sentences=_sentences,
    settings_said=frozenset({"negated", "case_sensitive"}),
    never_scores=_unread_settings,
    asks=frozenset({"final_answer"}),
)
