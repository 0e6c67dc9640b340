"""Matchers of values of any type."""

import math
import operator
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tracegrade.document.problem import did_you_mean
from tracegrade.evaluate.criteria.expected import Expected, LiteralValue, MatcherError, Path, value_in_words
from tracegrade.evaluate.criteria.matcher import Compile, Matcher, read_options, refuse_argument
from tracegrade.evaluate.json_values import excerpt
from tracegrade.evaluate.work import CHARACTERS_PER_STEP, CHARACTERS_READ_PER_STEP, STEPS_OF_A_SEARCH, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import UNKNOWN, holds_unknown
from tracegrade.model.tri import Tri, any_of

if TYPE_CHECKING:
    from tracegrade.evaluate.criteria.json_schema import JsonSchema

DEFAULT_EPSILON = 0.01
# All detectors of secrets are asked, at most 2 microseconds a character.
_STEPS_OF_DETECTORS = 200
_TEXTS_AT_ONCE = 64  # beginning a search takes longer than a short text does
_STEPS_PER_CHARACTER_OF_DETECTORS = 4


def is_number(value: object) -> bool:
    """Whether `value` is a JSON number: true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class NumericToleranceMatcher(Matcher):
    """``$numeric_tolerance``: near a number; texts that are numbers count as numbers."""

    word = "$numeric_tolerance"
    argument = "number, or {value, epsilon}"
    summary = "a number, or a text that is one, at most `epsilon` (default 0.01) away"
    __slots__ = ("_epsilon", "_exact", "_value")

    def __init__(self, expected: float | int, epsilon: float) -> None:
        super().__init__({"value": expected, "epsilon": epsilon})
        self._exact = expected
        self._value = as_float(expected)
        # Any: compared as Python compares; compiled, a float would make floats of the integers beside it.
        self._epsilon: Any = epsilon

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        expected = "a number, or {value: NUMBER, epsilon: NUMBER}"
        value, epsilon = read_options(argument, path, "value", "epsilon", DEFAULT_EPSILON, expected)
        if isinstance(value, bool) or not isinstance(value, int | float):
            refuse_argument(path, expected, argument)
        return cls(value, epsilon)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is a number, or the text of one, near enough."""
        work.spend()
        if isinstance(actual, int) and isinstance(self._exact, int) and not isinstance(actual, bool):
            return bool(abs(actual - self._exact) <= self._epsilon)  # exact at any size
        value = as_float(actual)
        if value is None or self._value is None:
            return work.hides(actual)
        return bool(abs(value - self._value) <= self._epsilon)

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"is {value_in_words(self._exact)}, give or take {self._epsilon:g}"


def as_float(value: JsonValue) -> float | None:
    """The number that `value` is or, as a text, spells; None for all else, and for what a float cannot hold."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value) if not isinstance(value, str) or len(value) <= 100 else None
    except (ValueError, OverflowError):
        return None


_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)")


def beyond_floats(value: JsonValue) -> float | None:
    """Infinity with its sign, if `value` is the text that decoding keeps of a number too large for a float."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return None
    number = float(value)
    return number if math.isinf(number) else None


class BoundMatcher(Matcher):
    """``$gte`` and its kin: numbers by size, texts by code point (so dates in ISO form by time).

    A number too large for a float is infinite here: a limit must not be passed by going far beyond it.
    """

    argument = "number or text"
    holds: ClassVar[Callable[[Any, Any], bool]]
    bounds: ClassVar[str]  # in words
    __slots__ = ("_bound",)

    def __init__(self, bound: int | float | str) -> None:
        super().__init__(bound)
        self._bound = bound

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        if isinstance(argument, bool) or not isinstance(argument, int | float | str):
            refuse_argument(path, "a number or a text", argument)
        return cls(argument)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is of the bound's type, and on the right side of it."""
        work.spend()
        if isinstance(self._bound, str):
            if not isinstance(actual, str):
                return False
            work.spend(len(actual) // CHARACTERS_PER_STEP)
        elif not is_number(actual):
            if (infinite := beyond_floats(actual)) is None:
                return work.hides(actual)
            actual = infinite
        return work.unknown_value(actual) if work.is_hidden(actual) else type(self).holds(actual, self._bound)

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"is {self.bounds} {value_in_words(self._bound)}"


class GteMatcher(BoundMatcher):
    """``$gte``."""

    word = "$gte"
    summary = "at least that; numbers by size, texts (such as dates) in order of characters"
    holds = operator.ge
    bounds = "at least"
    __slots__ = ()


class GtMatcher(BoundMatcher):
    """``$gt``."""

    word = "$gt"
    summary = "more than that"
    holds = operator.gt
    bounds = "more than"
    __slots__ = ()


class LteMatcher(BoundMatcher):
    """``$lte``."""

    word = "$lte"
    summary = "at most that"
    holds = operator.le
    bounds = "at most"
    __slots__ = ()


class LtMatcher(BoundMatcher):
    """``$lt``."""

    word = "$lt"
    summary = "less than that"
    holds = operator.lt
    bounds = "less than"
    __slots__ = ()


_TYPES: dict[str, Callable[[JsonValue], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: is_number(value) and value == value // 1,  # type: ignore[operator]  # a number, as asked before
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}
_TYPES_IN_WORDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class TypeMatcher(Matcher):
    """``$type``: JSON Schema's type names."""

    word = "$type"
    argument = "type, or list of types"
    summary = "of this JSON type: " + ", ".join(f"`{name}`" for name in _TYPES) + "; 1.0 is an integer"
    __slots__ = ("_names",)

    def __init__(self, argument: JsonValue, names: list[str]) -> None:
        super().__init__(argument)
        self._names = names

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        names = []
        for name in argument if isinstance(argument, list) and argument else [argument]:
            if not isinstance(name, str) or name not in _TYPES:
                hint = did_you_mean(name, _TYPES) if isinstance(name, str) else ""
                raise MatcherError(path, f"expected a JSON type, found {excerpt(name, 80)}{hint}")
            names.append(name)
        return cls(argument, names)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is of one of the types."""
        work.spend()
        return (
            work.unknown_value(actual) if work.is_hidden(actual) else any(_TYPES[name](actual) for name in self._names)
        )

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"is {' or '.join(_TYPES_IN_WORDS[name] for name in self._names)}"


class LengthMatcher(Matcher):
    """``$length``: of a text in characters, of a list in items, of an object in members."""

    word = "$length"
    argument = "number or criterion"
    summary = "a text with this many characters, a list with this many items, an object with this many members"
    __slots__ = ("_length",)

    def __init__(self, argument: JsonValue, length: Expected) -> None:
        super().__init__(argument)
        self._length = length

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        criterion = compile(argument, path)
        if isinstance(criterion, LiteralValue) and (
            isinstance(argument, bool) or not isinstance(argument, int) or argument < 0
        ):
            refuse_argument(path, "a whole number, or a criterion such as {$gte: 1}", argument)
        return cls(argument, criterion)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether the length of `actual` is as expected; what has none never is."""
        work.spend()
        if work.is_hidden(actual) or work.is_open(actual):
            return work.unknown_value(actual)
        return isinstance(actual, str | list | dict) and self._length.matches(len(actual), work)

    def parts(self) -> Iterable[Expected]:
        """What the length must meet."""
        return (self._length,)

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"has a length that {self._length.in_words()}"


class SchemaMatcher(Matcher):
    """``$schema``: JSON Schema, whatever the draft."""

    word = "$schema"
    argument = "JSON Schema"
    summary = "valid by that schema; references outside it are refused, nothing is ever fetched"
    __slots__ = ("_schema",)

    def __init__(self, schema: "JsonSchema") -> None:
        super().__init__(schema.source)
        self._schema = schema

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        from tracegrade.evaluate.criteria.json_schema import (  # 60 ms, for the rules that say so
            JsonSchema,
            JsonSchemaError,
        )

        try:
            return cls(JsonSchema(argument))
        except JsonSchemaError as error:
            raise MatcherError(path, str(error)) from None

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is valid."""
        return self._schema.is_valid(actual, work)

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"is valid by the JSON Schema {value_in_words(self.written)}"


class OneOfMatcher(Matcher):
    """``$one_of``: any of several criteria."""

    word = "$one_of"
    argument = "list of criteria"
    summary = "at least one of them is met; with `{$absent: true}` among them, it may be missing"
    __slots__ = ("_choices", "optional")

    def __init__(self, argument: JsonValue, choices: list[Expected]) -> None:
        super().__init__(argument)
        self._choices = choices
        self.optional = any(choice.optional for choice in choices)

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        if not isinstance(argument, list) or not argument:
            refuse_argument(path, "a list of at least one criterion", argument)
        return cls(argument, [compile(choice, (*path, place)) for place, choice in enumerate(argument)])

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` meets one of them."""
        return any_of(choice.matches(actual, work) for choice in self._choices)

    def parts(self) -> Iterable[Expected]:
        """The choices."""
        return self._choices

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        if all(isinstance(choice, LiteralValue) for choice in self._choices):
            return f"is {' or '.join(value_in_words(choice.source) for choice in self._choices)}"
        return " or ".join(choice.in_words() for choice in self._choices)


class _Flag(Matcher):
    """A matcher that takes nothing."""

    argument = "true"
    __slots__ = ()

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        if argument is not True:
            refuse_argument(path, "true", argument)
        return cls(True)

    @abstractmethod
    def matches(self, actual: JsonValue, work: Work) -> Tri: ...


class SecretMatcher(_Flag):
    """``$secret``: a secret is there, by the detectors of secrets that redaction has."""

    word = "$secret"
    summary = (
        "a text is or holds a secret (key, token, password), as `redaction` knows them, at any depth of objects, lists "
        "and JSON in texts; also by the names of their members, such as `password`"
    )
    __slots__ = ()

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether there is a secret in `actual`; what was redacted may have been one."""
        from tracegrade.sensitive.secrets import (  # 60 ms, for those that say so
            length_without_signs,
            may_hold_secret,
            named_texts,
            secrets_in,
        )

        if not work.redacted and (length := length_without_signs(actual)) is not None:
            assert isinstance(actual, dict)
            work.spend(2 * len(actual) * STEPS_OF_A_SEARCH + length // CHARACTERS_READ_PER_STEP)
            return False

        def opened(text: str) -> None:
            work.spend(STEPS_OF_A_SEARCH + len(text) // CHARACTERS_READ_PER_STEP)

        texts = named_texts(actual, opened)
        while some := [*islice(texts, _TEXTS_AT_ONCE)]:
            read = sum([len(name) + len(text) // CHARACTERS_READ_PER_STEP for name, text in some])
            work.spend(read + len(some) * STEPS_OF_A_SEARCH)
            known = [(name, work.known(text)) for name, text in some] if work.redacted else some
            for one in known if may_hold_secret(known) else ():
                if not may_hold_secret([one]):
                    continue
                name, text = one
                work.spend(_STEPS_OF_DETECTORS + len(text) * _STEPS_PER_CHARACTER_OF_DETECTORS)
                # What is found around a redacted part may be a secret only by what that part was.
                if any(UNKNOWN not in found for found in secrets_in(text, name)):
                    return True
        return work.unknown_value(actual) if work.redacted and holds_unknown(actual) else False

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return "has a part that is a secret"


class AnyMatcher(_Flag):
    """``$any``: there, whatever it is."""

    word = "$any"
    summary = "it is there, with any value, also null"
    __slots__ = ()

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Yes."""
        work.spend()
        return True

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return "is there"


class AbsentMatcher(_Flag):
    """``$absent``: a member of an object that is not there."""

    word = "$absent"
    summary = "not there; null is there"
    optional = True
    __slots__ = ()

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """No: it is there."""
        work.spend()
        return False

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return "is not there"
