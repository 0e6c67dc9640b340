"""Matchers of texts. Numbers, true and false are read as their JSON text; null, lists and objects are no text."""

from collections.abc import Iterable
from typing import Any, ClassVar, Self

from tracegrade.evaluate.criteria.expected import Expected, LiteralValue, MatcherError, Path, value_in_words
from tracegrade.evaluate.criteria.matcher import Compile, Matcher, read_options, refuse_argument
from tracegrade.evaluate.criteria.regular_expressions import glob_expression, regex_expression, steps_of_search
from tracegrade.evaluate.criteria.semantic import Model, model
from tracegrade.evaluate.json_values import excerpt, json_equal, scalar_text
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.errors import WrongValue
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import UNKNOWN
from tracegrade.model.tri import Tri, any_of

DEFAULT_SIMILARITY = 0.8
# The machine compares 64 characters with one at once; a step is some of those. Measured with texts of many signs, for
# each of which it keeps where it stands.
_CHARACTER_PAIRS_PER_STEP = 2048
_CHARACTERS_OF_PAIRS_PER_STEP = 24
_STEPS_OF_TWO_TEXTS = 12
# Two embeddings; the model reads no more of a text than its first words.
_STEPS_OF_MEANING = 600
_STEPS_OF_A_CHARACTERS_MEANING = 4
_CHARACTERS_OF_MEANING = 3000


def text_of(value: JsonValue) -> str | None:
    """The text that a scalar is, or has as JSON; None for null, lists and objects."""
    if value is None or isinstance(value, dict | list):
        return None
    return value if isinstance(value, str) else scalar_text(value)


class RegexMatcher(Matcher):
    """``$regex``: RE2, found anywhere; linear in the text whatever the pattern."""

    word = "$regex"
    argument = "RE2 expression"
    summary = "it is found anywhere in the text, letter case counting unless it says `(?i)`"
    __slots__ = ("_expression",)

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._expression = self._compiled(pattern)

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        if not isinstance(argument, str):
            refuse_argument(path, "a regular expression as text", argument)
        try:
            return cls(argument)
        except ValueError as error:
            raise MatcherError(path, str(error)) from None

    @staticmethod
    def _compiled(pattern: str) -> Any:
        return regex_expression(pattern)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether the expression is found in the text of `actual`."""
        if (text := text_of(actual)) is None:
            return False
        known = work.known(text)
        encoded = known.encode("utf-8", "replace")
        work.spend(steps_of_search(self._expression, len(encoded)))
        found = self._expression.search(encoded)
        if found is not None and (known is text or UNKNOWN.encode() not in found.group()):
            return True
        return work.hides(actual)  # nothing is found, or what was redacted is a part of it

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"has a part that matches {value_in_words(self.written)}"


class GlobMatcher(RegexMatcher):
    """``$glob``: as in clauses, over the whole text."""

    word = "$glob"
    argument = "glob"
    summary = "it covers the whole text: `*`, `?`, `[abc]`, `[!abc]`; letter case counts"
    __slots__ = ()

    @staticmethod
    def _compiled(pattern: str) -> Any:
        return glob_expression(pattern)

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"fits the glob {value_in_words(self.written)}"


class CaseInsensitiveMatcher(Matcher):
    """``$case_insensitive``: equal, ignoring letter case where both are texts."""

    word = "$case_insensitive"
    argument = "value"
    summary = "the value is equal; two texts in any letter case"
    __slots__ = ("_expected", "_lower")

    def __init__(self, expected: JsonValue) -> None:
        super().__init__(expected)
        self._expected = expected
        self._lower = expected.lower() if isinstance(expected, str) else None

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        try:
            criterion = compile(argument, path)
        except MatcherError:  # keys of its own that begin with $
            return cls(argument)
        if not isinstance(criterion, LiteralValue):
            raise MatcherError(
                path, f"expected a plain value, found {excerpt(argument, 80)}: matchers are not allowed here"
            )
        return cls(criterion.source)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is equal."""
        if self._lower is None or not isinstance(actual, str):
            return json_equal(self._expected, actual, work) or work.hides(actual)
        work.spend(1 + len(actual) // CHARACTERS_READ_PER_STEP)
        return actual.lower() == self._lower or work.hides(actual)

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"is {value_in_words(self.written)}, in small letters or capitals"


class ContainsMatcher(Matcher):
    """``$contains``: a part is there."""

    word = "$contains"
    argument = "text, number or criterion"
    summary = "a text holds that text, in any letter case; a list holds an item that meets the criterion"
    __slots__ = ("_item", "_lower")

    def __init__(self, argument: JsonValue, item: Expected) -> None:
        super().__init__(argument)
        self._item = item
        text = text_of(argument)
        self._lower = text.lower() if text is not None else None

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        if isinstance(argument, dict) and "$from" in argument:
            raise MatcherError(
                path,
                "$from inside $contains never matches in a text; write {$from: ...} alone, which without a path "
                "finds the "
                "value in a longer text too",
            )
        item = compile(argument, path)
        if item.optional:
            raise MatcherError(path, "$absent applies only to members of objects: here there is always a value")
        return cls(argument, item)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` holds it."""
        work.spend()
        if isinstance(actual, list):
            return any_of(self._item.matches(item, work) for item in actual)
        if self._lower is None or (text := text_of(actual)) is None:
            return work.hides(actual)
        work.spend(len(text) // CHARACTERS_READ_PER_STEP)
        return self._lower in work.known(text).lower() or work.hides(actual)

    def parts(self) -> Iterable[Expected]:
        """What an item must meet."""
        return (self._item,)

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        if isinstance(self._item, LiteralValue):
            return f"contains {value_in_words(self._item.source)}"
        return f"has an item that {self._item.in_words()}"


class SimilarityMatcher(Matcher):
    """``$similarity``: one less the edits (insert, delete, replace) from one text to the other, by the longer."""

    word = "$similarity"
    argument = "text, or {text, at_least}"
    summary = "the text differs by few edits: 1 - edits / length of the longer is at least `at_least` (default 0.8)"
    default: ClassVar[float] = DEFAULT_SIMILARITY
    verb: ClassVar[str] = "is written like"
    __slots__ = ("_at_least", "_sought")

    def __init__(self, text: str, at_least: float) -> None:
        super().__init__({"text": text, "at_least": at_least})
        self._sought = text
        self._at_least = at_least

    @classmethod
    def read(cls, argument: JsonValue, path: Path, compile: Compile) -> Self:
        """As `Matcher.read`."""
        expected = "a text, or {text: TEXT, at_least: 0..1}"
        text, at_least = read_options(argument, path, "text", "at_least", cls.default, expected)
        if not isinstance(text, str):
            refuse_argument(path, expected, argument)
        if at_least > 1:
            refuse_argument((*path, "at_least"), "a number from 0 to 1", at_least)
        return cls._of(text, at_least, path)

    @classmethod
    def _of(cls, text: str, at_least: float, path: Path) -> Self:
        return cls(text, at_least)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether the text of `actual` is similar enough."""
        from rapidfuzz.distance import Levenshtein  # 40 ms, for the rules that say so

        if (text := text_of(actual)) is None:
            return False
        pairs, characters = len(text) * len(self._sought), len(text) + len(self._sought)
        work.spend(
            _STEPS_OF_TWO_TEXTS + pairs // _CHARACTER_PAIRS_PER_STEP + characters // _CHARACTERS_OF_PAIRS_PER_STEP
        )
        if work.is_hidden(text):
            return work.unknown_value(text)
        return Levenshtein.normalized_similarity(self._sought, text) >= self._at_least

    def in_words(self) -> str:
        """As `Matcher.in_words`."""
        return f"{self.verb} {value_in_words(self._sought)} (by {self._at_least:g} of 1 or more)"


class SemanticMatcher(SimilarityMatcher):
    """``$semantic``: the cosine of two texts' embeddings, by the model that the settings name."""

    word = "$semantic"
    argument = "text, or {text, at_least}"
    summary = (
        "the text means much the same: cosine of the embeddings at least `at_least` (default 0.7); "
        "needs `tracegrade[semantic]` and `rules.semantic_model`"
    )
    default = 0.7
    verb = "means what is said by"
    __slots__ = ("model",)

    def __init__(self, text: str, at_least: float, model: Model) -> None:
        super().__init__(text, at_least)
        self.model = model

    @classmethod
    def _of(cls, text: str, at_least: float, path: Path) -> Self:
        try:
            return cls(text, at_least, model())
        except WrongValue as error:
            raise MatcherError(path, str(error)) from None

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether the text of `actual` is near enough in meaning."""
        if (text := text_of(actual)) is None:
            return False
        characters = min(len(text), _CHARACTERS_OF_MEANING) + min(len(self._sought), _CHARACTERS_OF_MEANING)
        work.spend(_STEPS_OF_MEANING + _STEPS_OF_A_CHARACTERS_MEANING * characters)
        if work.is_hidden(text):
            return work.unknown_value(text)
        return self.model.similarity(self._sought, text) >= self._at_least
