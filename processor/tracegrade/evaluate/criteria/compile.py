"""Criteria compiled: an object whose keys all start with ``$`` is a matcher, such as ``{$regex: "^ORD-[0-9]+$"}``.

Several keys: all must hold. A mixture with other keys is a mistake, and ``{$literal: X}`` stands for X as it is.

A new matcher is a class beside its like (`text_matchers`, `value_matchers`), and a line in `registry`.
"""

from collections.abc import Iterable, Mapping

from tracegrade.document.problem import did_you_mean
from tracegrade.evaluate.criteria.expected import (
    Expected,
    ExpectedList,
    ExpectedObject,
    LiteralValue,
    MatcherError,
    Path,
)
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD
from tracegrade.evaluate.criteria.value_matchers import (
    AbsentMatcher,
)
from tracegrade.evaluate.json_values import excerpt
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Tri, all_of

# Contexts in which criteria are validated; without one, matchers are on.
MATCHERS = {"matchers": True}
LITERAL = {"matchers": False}


def takes_matchers(context: Mapping[str, bool] | None) -> bool:
    """Whether objects of ``$`` keys are matchers in what is validated in that context."""
    return bool((context or MATCHERS).get("matchers", True))


MAX_DEPTH = 64  # of a criterion, as of a YAML file

LITERALLY = "$literal"


class AllOf(Expected):
    """Several matchers on one value: all hold."""

    __slots__ = ("_parts", "optional")

    def __init__(self, source: JsonValue, parts: list[Expected]) -> None:
        super().__init__(source)
        self._parts = parts
        self.optional = all(part.optional for part in parts)

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether every part matches."""
        return all_of(part.matches(actual, work) for part in self._parts)

    def parts(self) -> Iterable[Expected]:
        """The matchers."""
        return self._parts

    def in_words(self) -> str:
        """The words of each matcher."""
        return " and ".join(part.in_words() for part in self._parts)


def compile_expected(value: JsonValue, *, matchers: bool = True, path: Path = ()) -> Expected:
    """Compile a criterion.

    Args:
        value: the criterion as written.
        matchers: whether objects of ``$`` keys are matchers; literal when not.
        path: where `value` stands, put in front of the path of an error.

    Raises:
        MatcherError: a mixture of ``$`` keys and others, an unknown matcher, a bad argument of a matcher, nested
            deeper than `MAX_DEPTH`.
    """
    if len(path) > MAX_DEPTH:
        raise MatcherError(path, f"expected values are nested more than {MAX_DEPTH} deep")
    # A container without matchers inside is compared as one value; its parts' own, since {$literal: X} stands for X.
    if isinstance(value, dict):
        if matchers and value and (words := [key for key in value if key.startswith("$")]):
            return _compile_matcher(value, words, path)
        members = {key: compile_expected(member, matchers=matchers, path=(*path, key)) for key, member in value.items()}
        if all(isinstance(member, LiteralValue) for member in members.values()):
            return LiteralValue({key: member.source for key, member in members.items()})
        return ExpectedObject(value, members)
    if isinstance(value, list):
        items = [compile_expected(item, matchers=matchers, path=(*path, i)) for i, item in enumerate(value)]
        for place, item in enumerate(items):
            refuse_absent(item, (*path, place))
        if all(isinstance(item, LiteralValue) for item in items):
            return LiteralValue([item.source for item in items])
        return ExpectedList(value, items)
    return LiteralValue(value)


def compile_value(value: JsonValue, *, matchers: bool = True) -> Expected:
    """Compile a criterion for something that is always there: an output, an answer.

    Raises:
        MatcherError: as `compile_expected`; ``$absent``.
    """
    expected = compile_expected(value, matchers=matchers)
    refuse_absent(expected, ())
    return expected


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


def _compile_matcher(value: dict[str, JsonValue], words: list[str], path: Path) -> Expected:
    if len(words) < len(value):
        other = next(key for key in value if not key.startswith("$"))
        raise MatcherError(
            path,
            f"matcher {words[0]!r} is beside {other!r}; an object is a matcher only when all its keys start "
            "with '$', and {$literal: ...} takes one as it is",
        )
    parts = [_compile_word(word, value[word], (*path, word)) for word in words]
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(part, AbsentMatcher) for part in parts):
        raise MatcherError(
            path, "$absent never holds together with other matchers; write {$one_of: [{$absent: true}, ...]}"
        )
    return AllOf(value, parts)


def refuse_absent(expected: Expected, path: Path) -> None:
    """Refuse ``$absent`` where there is always a value.

    Raises:
        MatcherError: `expected` is nothing else.
    """
    if isinstance(expected, AbsentMatcher):
        raise MatcherError(path, "$absent applies only to members of objects: here there is always a value")


def _compile_word(word: str, argument: JsonValue, path: Path) -> Expected:
    if word == LITERALLY:
        return compile_expected(argument, matchers=False, path=path)
    if (matcher := MATCHERS_BY_WORD.get(word)) is None:
        known = [*MATCHERS_BY_WORD, LITERALLY]
        meant = did_you_mean(word, known) or f"; expected one of {', '.join(sorted(known))}"
        raise MatcherError(path, f"no matcher {word!r}{meant}")
    return matcher.read(argument, path, _compile_inside)


def _compile_inside(value: JsonValue, path: Path) -> Expected:
    return compile_expected(value, path=path)
