"""What the judges of a run's final answer share: which part of it is judged, and judging line by line.

An answer that is the JSON text of an object or a list has parts, ``order.items[0].id``; any other answer is a text. A
part that the answer lacks scores 0; one that the expectation lacks is a mistake in the criteria.

Source: UiPath/uipath-python, eval/evaluators/output_evaluator.py.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field, WithJsonSchema

from tracegrade.evaluate.criteria.compile import compile_value
from tracegrade.evaluate.criteria.expected import Expected, ExpectedList, ExpectedObject, LiteralValue, Path
from tracegrade.evaluate.criteria.field_types import as_written, compiled_by
from tracegrade.evaluate.criteria.parameters import NotedSettings, ParameterModel
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import decoded_container, excerpt, json_text
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue

WHOLE = "*"
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_MAX_LINES_LISTED = 200

ExpectedValue: TypeAlias = Annotated[
    Expected,
    compiled_by(lambda value, matchers: compile_value(value, matchers=matchers)),
    as_written,
    WithJsonSchema({}),
]


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


class OutputCriteria(ParameterModel):
    """What is expected."""

    expected_output: Annotated[ExpectedValue, Field(description="The answer: a text, or any JSON value.")]


class Absent:
    """The part is not there."""


ABSENT = Absent()


def answered(evidence: Evidence, settings: AnswerSettings) -> "JsonValue | Absent":
    """The judged part of the answer: for several keys an object of them, `ABSENT` when one is not there."""
    answer: JsonValue = "" if evidence.final_answer is None else evidence.final_answer
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


@dataclass(frozen=True, slots=True)
class Compared:
    """The judged part of the answer beside what is expected of it, and both for the details."""

    expected: Expected
    actual: JsonValue
    details: dict[str, JsonValue]

    def lines(self, settings: AnswerSettings) -> tuple[str, str] | None:
        """Both sides, where they are judged line by line."""
        expected = self.expected.source
        if settings.judges_lines and isinstance(expected, str) and isinstance(self.actual, str):
            return expected, self.actual
        return None

    def decoded(self) -> JsonValue:
        """The answer as the object or list that it is the JSON of, where one is expected."""
        if isinstance(self.actual, str) and isinstance(self.expected.source, dict | list):
            container = decoded_container(self.actual)
            return self.actual if container is None else container
        return self.actual

    def meets_matcher(self, work: Work) -> bool:
        """Whether a matcher is expected that the answer meets as the text that it is, decoded or not.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        return is_matcher(self.expected) and self.expected.matches(self.actual, work)


def is_matcher(expected: Expected) -> bool:
    """Whether a matcher is expected of the value as a whole."""
    return not isinstance(expected.opened(), ExpectedObject | ExpectedList | LiteralValue)


def unread_settings(criteria: "OutputCriteria", settings: AnswerSettings) -> str | None:
    """Which setting says nothing, with these criteria."""
    if settings.judges_lines and is_matcher(criteria.expected_output):
        return "line_by_line_evaluator is of texts, and a matcher is met by the whole answer or not; leave it out"
    return None


def compared(evidence: Evidence, criteria: OutputCriteria, settings: AnswerSettings) -> Compared | None:
    """What is judged, None when the answer lacks the part.

    Raises:
        EvaluatorError: ``invalid_criteria``, the expected answer has no such part.
    """
    actual = answered(evidence, settings)
    if isinstance(actual, Absent):
        return None
    expected = expected_part(criteria.expected_output, settings)
    if evidence.final_answer is None and expected.source is None:
        actual = None  # null was expected, and is no text here
    return Compared(expected, actual, shown(expected, actual))


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


def expected_part(expected: Expected, settings: AnswerSettings) -> Expected:
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


def judge_lines(
    expected: str, actual: str, settings: AnswerSettings, judge: Callable[[str, str], float]
) -> tuple[float, list[JsonValue]]:
    """The mean over lines, the shorter side filled up with empty ones; and each line's score for the details."""
    sides = [_lines(expected, settings), _lines(actual, settings)]
    scores = [judge(wanted, found) for wanted, found in zip_longest(*sides, fillvalue="")]
    shown: list[JsonValue] = [*scores[:_MAX_LINES_LISTED]]
    return (sum(scores) / len(scores) if scores else 1.0), shown


def _lines(text: str, settings: AnswerSettings) -> Sequence[str]:
    return [line for line in text.split(settings.line_delimiter) if line.strip()]


def absent_score(settings: AnswerSettings) -> Score:
    """The score of an answer without the part that is judged."""
    keys = ", ".join(key for key, _ in settings.paths)
    return Score(0.0, {"actual": None}, f"The answer has no part {keys}.")


def shown(expected: Expected | str, actual: JsonValue) -> dict[str, JsonValue]:
    """Both sides for the details, cut to a readable length."""
    return {
        "expected": excerpt(expected) if isinstance(expected, str) else expected.text,
        "actual": excerpt(json_text(actual)) if isinstance(actual, str) else excerpt(actual),
    }
