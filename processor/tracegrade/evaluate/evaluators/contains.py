"""contains: is a text in the final answer? 1 or 0, with ``negated`` the other way round; an object is its JSON text."""

from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.compare.final_answer import Absent, AnswerSettings, absent_score, answered, judge_lines, shown
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, ParameterModel
from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import json_text
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work


class Criteria(ParameterModel):
    """What is expected."""

    search_text: Annotated[str, Field(description="The text to find.")]


class Settings(AnswerSettings):
    """How it is compared."""

    case_sensitive: Annotated[bool, Field(description="Letter case counts.")] = False
    negated: Annotated[bool, Field(description="1 when the text is not there.")] = False
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    actual = answered(evidence, settings)
    if isinstance(actual, Absent):
        return absent_score(settings)
    text = json_text(actual)
    Work().spend((len(text) + len(criteria.search_text)) // CHARACTERS_READ_PER_STEP)

    def judge(wanted: str, found: str) -> float:
        if not settings.case_sensitive:
            wanted, found = wanted.lower(), found.lower()
        return float((wanted in found) is not settings.negated)

    details = shown(criteria.search_text, actual)
    if settings.judges_lines:
        score, details["lines"] = judge_lines(criteria.search_text, text, settings, judge)
    else:
        score = judge(criteria.search_text, text)
    there = "is" if (score == 1) is not settings.negated else "is not"
    return Score(score, details, f"The text {there} in the answer.")


EVALUATOR = Evaluator(
    name="contains",
    summary="Is a text in the final answer?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    reads=frozenset({"final_answer"}),
)
