"""``values``: how expected values are compared that are written as they are, by the words of the matchers.

``values: case_insensitive`` is as if ``$case_insensitive`` stood before every expected text, number, true, false and
null, at any depth. ``{$numeric_tolerance: {epsilon: 0.5}}`` also says the matcher's options. By tool and by path inside
its arguments or output, of which the longest that fits counts, then ``*``::

    values: {"*": case_insensitive, create_order.total: {$numeric_tolerance: {epsilon: 0.5}}, create_order.id: exact}

What a word has no meaning for (the tolerance of a text, the similarity of a number) is compared exactly, and matchers
stay as they are.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field, PlainSerializer, WithJsonSchema, model_validator

from tracegrade.document.problem import did_you_mean, dotted
from tracegrade.evaluate.criteria.compile import compile_expected
from tracegrade.evaluate.criteria.expected import (
    Criterion,
    Expected,
    ExpectedList,
    ExpectedObject,
    LiteralValue,
    MatcherError,
    Path,
)
from tracegrade.evaluate.criteria.field_types import compiled_by
from tracegrade.evaluate.criteria.matcher import refuse_argument
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.semantic import Model, comparing_by
from tracegrade.evaluate.criteria.text_matchers import SemanticMatcher
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.criteria.value_matchers import as_float, is_number
from tracegrade.model.json_value import JsonValue

EXACT = "exact"
ALL = "*"
# Word -> the option that a value is compared by, and the member that holds the value beside it.
_OPTIONS: dict[str, tuple[str, str]] = {
    "numeric_tolerance": ("epsilon", "value"),
    "similarity": ("at_least", "text"),
    "semantic": ("at_least", "text"),
}
WORDS = (EXACT, "case_insensitive", "contains", "glob", "regex", *_OPTIONS)


class _Mode:
    """One word, and its options."""

    def __init__(self, written: JsonValue, path: Path) -> None:
        options: JsonValue = {}
        word = written
        if isinstance(written, dict) and len(written) == 1:
            (word,) = written
            options = written[word]
            word = word.removeprefix("$")
        if not isinstance(word, str) or word not in WORDS:
            hint = did_you_mean(word, WORDS) if isinstance(word, str) else f"; expected one of {', '.join(WORDS)}"
            raise MatcherError(path, f"no way to compare values {word!r}{hint}")
        taken = {_OPTIONS[word][0]} if word in _OPTIONS else set()
        if not isinstance(options, dict) or not options.keys() <= taken:
            refuse_argument(path, f"options of {word!r}: {', '.join(taken) or 'none'}", options)
        self._word = word
        self._options = options
        self._path = path
        # Wrong options are refused even where no value is compared by them.
        example = self._compiled("1")
        self.meaning = example.model if isinstance(example, SemanticMatcher) else None

    def compiled(self, value: JsonValue) -> Expected:
        """The criterion for a scalar; by the model of this mode, also when none is named any more."""
        if self.meaning is None:
            return self._compiled(value)
        with comparing_by(self.meaning):
            return self._compiled(value)

    def _compiled(self, value: JsonValue) -> Expected:
        argument = value
        if self._word == EXACT or not self._means_something(value):
            return LiteralValue(value)
        if self._word in _OPTIONS:
            argument = {**self._options, _OPTIONS[self._word][1]: _number(value) if is_tolerance(self._word) else value}
        return compile_expected({f"${self._word}": argument}, path=self._path)

    def _means_something(self, value: JsonValue) -> bool:
        if is_tolerance(self._word):
            return as_float(value) is not None
        return isinstance(value, str) or (self._word == "contains" and value is not None)


def is_tolerance(word: str) -> bool:
    """Whether `word` compares numbers."""
    return word == "numeric_tolerance"


def _number(value: JsonValue) -> JsonValue:
    return value if is_number(value) else as_float(value)


class ValueModes:
    """How the expected values of each tool are compared; ``written`` is the setting as the rule has it."""

    def __init__(self, written: JsonValue) -> None:
        self.written = written
        self._modes: dict[str, _Mode] = {}
        by_target = isinstance(written, dict) and not any(key.startswith("$") for key in written)
        if not by_target:
            self._modes[ALL] = _Mode(written, ())
        elif isinstance(written, dict):
            self._modes = {target: _Mode(mode, (target,)) for target, mode in written.items()}

    @property
    def meaning(self) -> Model | None:
        """The model of text embeddings that it asks, if it asks one."""
        return next((mode.meaning for mode in self._modes.values() if mode.meaning is not None), None)

    def unused(self, tools: Iterable[str]) -> str | None:
        """The first target that names none of `tools`."""
        names = set(tools)
        for target in self._modes:
            if target != ALL and not any(
                target == name or target.startswith((f"{name}.", f"{name}[")) for name in names
            ):
                return target
        return None

    def applied(self, tool: str, expected: Expected) -> Expected:
        """`expected` with its literal values compared as this says for `tool`."""
        return self._applied(tool, expected, ())

    def _applied(self, tool: str, expected: Expected, path: Path) -> Expected:
        criterion = expected.opened()
        if isinstance(criterion, ExpectedObject):
            members = {key: self._applied(tool, part, (*path, key)) for key, part in criterion.members.items()}
            return ExpectedObject({key: part.source for key, part in members.items()}, members)
        if isinstance(criterion, ExpectedList):
            items = [self._applied(tool, part, (*path, place)) for place, part in enumerate(criterion.items)]
            return ExpectedList([part.source for part in items], items)
        if isinstance(criterion, LiteralValue) and (mode := self._mode(tool, path)) is not None:
            return mode.compiled(criterion.source)
        return criterion

    def _mode(self, tool: str, path: Path) -> _Mode | None:
        for length in range(len(path), -1, -1):
            inside = dotted(path[:length])
            target = tool + inside if inside.startswith("[") else f"{tool}.{inside}" if inside else tool
            if (mode := self._modes.get(target)) is not None:
                return mode
        return self._modes.get(ALL)


_WORD_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"enum": list(WORDS)},
        {"type": "object", "patternProperties": {r"^\$": {"type": "object"}}, "additionalProperties": False},
    ]
}
Modes: TypeAlias = Annotated[
    ValueModes | None,
    compiled_by(lambda value, matchers: ValueModes(value)),
    PlainSerializer(lambda modes: modes and modes.written),
    WithJsonSchema({"anyOf": [*_WORD_SCHEMA["anyOf"], {"type": "object", "additionalProperties": _WORD_SCHEMA}]}),
]


class ComparedValues(ParameterModel):
    """Base of criteria that are lists of calls, each with a ``name`` (or several) and an expected value."""

    values: Annotated[
        Modes, Field(description="How values are compared: a word, or words by tool and path; exact if omitted.")
    ] = None

    @model_validator(mode="after")
    def _compare_as_said(self) -> Self:
        modes = self.values
        if modes is None:
            return self
        calls = dict(self._calls())
        names = (name for found in calls.values() for call in found for name in listed_names(call.name))
        if (target := modes.unused(names)) is not None:
            raise ValueError(f"values: no expected call is {target!r}; a target is '*', TOOL or TOOL.PATH")
        return self.model_copy(
            update={field: [_with_modes(call, modes) for call in found] for field, found in calls.items()}
        )

    def _calls(self) -> Iterator[tuple[str, list[Any]]]:
        for field in type(self).model_fields:
            found = getattr(self, field)
            if isinstance(found, list) and all(hasattr(item, "name") for item in found):
                yield field, found


def _with_modes(call: Any, modes: ValueModes) -> Any:
    tool = listed_names(call.name)[0]
    update = {
        field: value.rewritten(lambda criterion: modes.applied(tool, criterion))
        for field in type(call).model_fields
        if isinstance(value := getattr(call, field), Criterion)
    }
    return call.model_copy(update=update)
