"""Criteria compiled: an object whose keys all start with ``$`` is a matcher, such as ``{$regex: "^ORD-[0-9]+$"}``.

Several keys: all must hold. A mixture with other keys is a mistake, and ``{$literal: X}`` stands for X as it is.

``$regex`` (RE2) is found anywhere in a text; numbers, true and false are read as their JSON text; null, lists and
objects never match.

A new matcher is a class, and a line in ``_COMPILERS``.
"""

from collections.abc import Callable, Iterable

import re2

from tracegrade.evaluate.expected import Expected, ExpectedList, ExpectedObject, LiteralValue, Path
from tracegrade.evaluate.values import excerpt, scalar_text
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.yaml_file import did_you_mean

# Known words that this version refuses, so that no rule means something else after an upgrade.
LATER_MATCHERS = frozenset(
    {
        "$absent",
        "$any",
        "$case_insensitive",
        "$contains",
        "$from",
        "$glob",
        "$gte",
        "$length",
        "$lte",
        "$numeric_tolerance",
        "$one_of",
        "$schema",
        "$semantic",
        "$similarity",
        "$type",
    }
)
# Contexts in which criteria are validated; without one, matchers are on.
MATCHERS = {"matchers": True}
LITERAL = {"matchers": False}

MAX_DEPTH = 64  # of a criterion, as of a YAML file
_MAX_PATTERN_BYTES = 1 << 20  # of one compiled expression


class MatcherError(ValueError):
    """A criterion that cannot be compiled; ``path`` is where inside the value."""

    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        super().__init__(message)


class RegexMatcher(Expected):
    """``$regex``: RE2, found anywhere in the text of a scalar; linear in the text whatever the pattern."""

    __slots__ = ("_expression",)

    def __init__(self, source: JsonValue, pattern: str) -> None:
        super().__init__(source)
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_PATTERN_BYTES
        # Bytes on both sides: texts may hold lone surrogates, which have no UTF-8.
        self._expression = re2.compile(pattern.encode(), options)

    def matches(self, actual: JsonValue, work: Work) -> bool:
        """Whether the expression is found in the text of `actual`."""
        if actual is None or isinstance(actual, dict | list):
            return False
        text = actual if isinstance(actual, str) else scalar_text(actual)
        work.spend(1 + len(text) // CHARACTERS_READ_PER_STEP)
        return self._expression.search(text.encode("utf-8", "replace")) is not None


class AllOf(Expected):
    """Several matchers on one value: all hold."""

    __slots__ = ("parts",)

    def __init__(self, source: JsonValue, parts: list[Expected]) -> None:
        super().__init__(source)
        self.parts = parts

    def matches(self, actual: JsonValue, work: Work) -> bool:
        """Whether every part matches."""
        return all(part.matches(actual, work) for part in self.parts)


def compile_expected(value: JsonValue, *, matchers: bool = True, path: Path = ()) -> Expected:
    """Compile a criterion.

    Args:
        value: the criterion as written.
        matchers: whether objects of ``$`` keys are matchers; literal when not.
        path: where `value` stands, put in front of the path of an error.

    Raises:
        MatcherError: a mixture of ``$`` keys and others, an unknown matcher or one that is not in this version, a bad
            argument of a matcher, nested deeper than `MAX_DEPTH`.
    """
    if len(path) > MAX_DEPTH:
        raise MatcherError(path, f"expected values are nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        if matchers and value and (words := [key for key in value if key.startswith("$")]):
            return _compile_matcher(value, words, path)
        members = {key: compile_expected(member, matchers=matchers, path=(*path, key)) for key, member in value.items()}
        return _simplest(value, members.values(), ExpectedObject(value, members))
    if isinstance(value, list):
        items = [compile_expected(item, matchers=matchers, path=(*path, i)) for i, item in enumerate(value)]
        return _simplest(value, items, ExpectedList(value, items))
    return LiteralValue(value)


def compile_object(value: JsonValue, *, matchers: bool = True) -> ExpectedObject:
    """Compile a criterion that must be an object: the arguments of a call, by name.

    Raises:
        MatcherError: as `compile_expected`; not an object; a matcher for the object as a whole.
    """
    expected = compile_expected(value, matchers=matchers).opened()
    if isinstance(expected, ExpectedObject):
        return expected
    shown = "a matcher" if isinstance(value, dict) else "a list" if isinstance(value, list) else excerpt(value, 80)
    raise MatcherError((), f"expected an object of argument names and their values, found {shown}")


def _simplest(value: JsonValue, parts: Iterable[Expected], compiled: Expected) -> Expected:
    """A container without matchers inside is compared as one value."""
    return LiteralValue(value) if all(isinstance(part, LiteralValue) for part in parts) else compiled


def _compile_matcher(value: dict[str, JsonValue], words: list[str], path: Path) -> Expected:
    if len(words) < len(value):
        other = next(key for key in value if not key.startswith("$"))
        raise MatcherError(
            path,
            f"matcher {words[0]!r} stands beside {other!r}; an object is a matcher only when all its keys start "
            "with '$', and {$literal: ...} takes one as it is",
        )
    parts = [
        _COMPILERS[word](value[word], (*path, word)) for word in words if word in _COMPILERS or _refuse(word, path)
    ]
    return parts[0] if len(parts) == 1 else AllOf(value, parts)


def _refuse(word: str, path: Path) -> bool:
    if word in LATER_MATCHERS:
        known = " and ".join(sorted(_COMPILERS))
        raise MatcherError((*path, word), f"matcher {word!r} is not in this version, which has {known}")
    raise MatcherError((*path, word), f"no matcher {word!r}{did_you_mean(word, _COMPILERS.keys() | LATER_MATCHERS)}")


def _compile_literal(value: JsonValue, path: Path) -> Expected:
    return compile_expected(value, matchers=False, path=path)


def _compile_regex(value: JsonValue, path: Path) -> Expected:
    if not isinstance(value, str):
        raise MatcherError(path, f"expected a regular expression as text, found {excerpt(value, 80)}")
    try:
        return RegexMatcher({"$regex": value}, value)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(error)
        raise MatcherError(path, f"RE2 refuses the regular expression {value!r}: {text}") from None


_COMPILERS: dict[str, Callable[[JsonValue, Path], Expected]] = {"$literal": _compile_literal, "$regex": _compile_regex}
