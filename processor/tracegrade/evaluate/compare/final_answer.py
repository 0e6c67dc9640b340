"""What the judges of a run's final answer share: which part of it is judged, and judging line by line.

An answer that is the JSON text of an object or a list has parts, ``order.items[0].id``; any other answer is a text. A
part that the answer lacks scores 0; one that the expectation lacks is a mistake in the criteria.

Source: UiPath/uipath-python, eval/evaluators/output_evaluator.py.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from tracegrade.evaluate.criteria.expected import Expected, Path
from tracegrade.evaluate.criteria.parameters import NotedSettings
from tracegrade.evaluate.evidence import Score
from tracegrade.evaluate.json_values import decoded_container, excerpt, json_text
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Tri

WHOLE = "*"
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_MAX_LINES_LISTED = 200


def _check_key(key: str) -> str:
    if key != WHOLE and not _STEP.findall(key):
        raise ValueError(f"expected a path such as 'order.items[0].id', or '*', found {key!r}")
    return key


_Key: TypeAlias = Annotated[str, AfterValidator(_check_key)]


class AnswerSettings(NotedSettings):
    """Which part of the answer is judged."""

    target_output_key: Annotated[
        _Key | list[_Key], Field(description="Judge this part, or these, by dotted path; '*': the whole answer.")
    ] = WHOLE
    line_by_line_evaluator: Annotated[
        bool, Field(description="Judge each line with its counterpart; blank lines are left out.")
    ] = False
    line_delimiter: Annotated[str, Field(min_length=1, description="What lines are divided by.")] = "\n"

    @cached_property
    def paths(self) -> list[tuple[str, Path]]:
        """The parts judged, each as written and as a path."""
        keys = [self.target_output_key] if isinstance(self.target_output_key, str) else self.target_output_key
        return [(key, _path(key)) for key in keys]

    @property
    def judges_lines(self) -> bool:
        """Whether lines are judged one by one."""
        return self.line_by_line_evaluator and isinstance(self.target_output_key, str)


def _path(key: str) -> Path:
    return () if key == WHOLE else tuple(name or int(index) for name, index in _STEP.findall(key))


class Absent:
    """The part is not there."""


ABSENT = Absent()


def answered(answer: JsonValue, settings: AnswerSettings) -> "JsonValue | Absent":
    """The judged part of the answer: for several keys an object of them, `ABSENT` when one is not there."""
    answer = "" if answer is None else answer
    if settings.target_output_key == WHOLE:
        return answer
    if isinstance(answer, str):
        answer = decoded_container(answer)
    parts: dict[str, JsonValue] = {}
    for key, path in settings.paths:
        part = _value_at(answer, path)
        if isinstance(part, Absent):
            return ABSENT
        parts[key] = part
    return parts[settings.target_output_key] if isinstance(settings.target_output_key, str) else parts


def _value_at(value: JsonValue, path: Path) -> "JsonValue | Absent":
    for step in path:
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return ABSENT
            value = value[step]
        else:
            if not isinstance(value, list) or step >= len(value):
                return ABSENT
            value = value[step]
    return value


Ends: TypeAlias = tuple[float, float]
"""A score where what is unknown is not as expected, and where it is."""


def judge_lines(
    expected: str, actual: str, settings: AnswerSettings, judge: Callable[[str, str], Ends]
) -> tuple[Ends, list[JsonValue]]:
    """The mean over lines, the shorter side filled up with empty ones; and each line's score for the details."""
    sides = [_lines(expected, settings), _lines(actual, settings)]
    scores = [judge(wanted, found) for wanted, found in zip_longest(*sides, fillvalue="")]
    shown: list[JsonValue] = [score for score, _ in scores[:_MAX_LINES_LISTED]]
    score, at_best = (sum(ends) / len(scores) for ends in zip(*scores, strict=True)) if scores else (1.0, 1.0)
    return (score, at_best), shown


def ends_of(answer: Tri, work: Work, *, negated: bool) -> Ends:
    """1 or 0 for an answer, `negated` the other way round."""
    score, at_best = work.ends(answer)
    return (1 - score, 1 - at_best) if negated else (score, at_best)


def _lines(text: str, settings: AnswerSettings) -> Sequence[str]:
    return [line for line in text.split(settings.line_delimiter) if line.strip()]


def absent_score(settings: AnswerSettings) -> Score:
    """The score of an answer without the part that is judged."""
    keys = ", ".join(key for key, _ in settings.paths)
    return Score(0.0, {"actual": None}, f"The answer has no {keys}.")


def shown(expected: Expected | str, actual: JsonValue) -> dict[str, JsonValue]:
    """Both sides for the details, cut to a readable length."""
    return {
        "expected": excerpt(expected) if isinstance(expected, str) else expected.text,
        "actual": excerpt(json_text(actual)) if isinstance(actual, str) else excerpt(actual),
    }
