"""What a criterion expects of a value, compiled: does a value match, and where does it differ?"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tracegrade.evaluate.values import excerpt, json_equal, steps_of_plain
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue

Path: TypeAlias = tuple[str | int, ...]

_MISSING: Any = object()


class MatcherError(ValueError):
    """A criterion that cannot be compiled; ``path`` is where inside the value."""

    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        super().__init__(message)


class Expected:
    """A compiled criterion for one value; ``source`` is the criterion as written.

    ``optional``: it also holds for a member of an object that is not there.
    """

    __slots__ = ("_text", "source")
    optional = False

    def __init__(self, source: JsonValue) -> None:
        self.source = source
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The JSON of `source`, cut if long; made once."""
        if self._text is None:
            self._text = excerpt(self.source)
        return self._text

    def matches(self, actual: JsonValue, work: Work) -> bool:
        """Whether `actual` is what was expected.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        raise NotImplementedError

    def opened(self) -> "Expected":
        """The same criterion with its members as criteria of their own, where it has members."""
        return self

    def parts(self) -> Iterable["Expected"]:
        """The criteria that this one is made of, one level down."""
        return ()

    def rewritten(self, rewrite: "Callable[[Expected], Expected]") -> "Expected":
        """What `rewrite` makes of the criterion for the value itself."""
        return rewrite(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r})"


class LiteralValue(Expected):
    """The value itself, without matchers inside."""

    __slots__ = ("_plain_steps",)

    def __init__(self, source: JsonValue) -> None:
        super().__init__(source)
        self._plain_steps: int | None = None

    @property
    def plain_steps(self) -> int:
        """The work of comparing by ``==``, much the quicker way and right for all but a few values; else 0."""
        if self._plain_steps is None:
            self._plain_steps = steps_of_plain(self.source)
        return self._plain_steps

    def matches(self, actual: JsonValue, work: Work) -> bool:
        """Whether `actual` is equal as a JSON value."""
        if steps := self.plain_steps:
            work.spend(steps)
            return self.source == actual
        return json_equal(self.source, actual, work)

    def opened(self) -> Expected:
        """An object or list of literals; a scalar stays what it is."""
        if isinstance(self.source, dict):
            return ExpectedObject(self.source, {key: LiteralValue(member) for key, member in self.source.items()})
        if isinstance(self.source, list):
            return ExpectedList(self.source, [LiteralValue(item) for item in self.source])
        return self


class ExpectedObject(Expected):
    """An object with exactly these members."""

    __slots__ = ("_optional", "_others", "_plain", "_plain_steps", "members")

    def __init__(self, source: JsonValue, members: dict[str, Expected]) -> None:
        super().__init__(source)
        self.members = members
        # Members that are compared by ``==`` are compared here: most are, and calling each costs more than comparing.
        self._plain: dict[str, JsonValue] = {}
        self._plain_steps = 1
        self._others: dict[str, Expected] = {}
        self._optional = any(member.optional for member in members.values())
        for key, member in members.items():
            if isinstance(member, LiteralValue) and member.plain_steps:
                self._plain[key] = member.source
                self._plain_steps += member.plain_steps
            else:
                self._others[key] = member

    def matches(self, actual: JsonValue, work: Work) -> bool:
        """Whether `actual` is an object of these members and no others."""
        if not isinstance(actual, dict):
            work.spend()
            return False
        if len(actual) != len(self.members) if not self._optional else not actual.keys() <= self.members.keys():
            work.spend()
            return False
        return self.matches_within(actual, work)

    def matches_within(self, actual: dict[str, JsonValue], work: Work) -> bool:
        """Whether `actual` has the expected members, whatever else it has; nested values are compared whole."""
        work.spend(self._plain_steps)
        if not self._plain.items() <= actual.items():  # the machine compares as `==` does
            return False
        for key, member in self._others.items():
            if not (member.matches(actual[key], work) if key in actual else member.optional):
                return False
        return True

    def matched_members(self, actual: dict[str, JsonValue], work: Work) -> int:
        """How many of the expected members `actual` has."""
        work.spend(self._plain_steps)
        plain = self._plain
        matched = len(plain)
        if not plain.items() <= actual.items():  # the machine compares as `==` does
            for key, value in plain.items():
                if actual.get(key, _MISSING) != value:
                    matched -= 1
        for key, member in self._others.items():
            if member.matches(actual[key], work) if key in actual else member.optional:
                matched += 1
        return matched

    def parts(self) -> Iterable[Expected]:
        """The members."""
        return self.members.values()


class ExpectedList(Expected):
    """A list of exactly these items, in this order."""

    __slots__ = ("items",)

    def __init__(self, source: JsonValue, items: list[Expected]) -> None:
        super().__init__(source)
        self.items = items

    def matches(self, actual: JsonValue, work: Work) -> bool:
        """Whether `actual` is a list of as many items, each as expected."""
        work.spend()
        if not isinstance(actual, list) or len(actual) != len(self.items):
            return False
        return all(item.matches(value, work) for item, value in zip(self.items, actual, strict=True))

    def parts(self) -> Iterable[Expected]:
        """The items."""
        return self.items


def every_part(expected: Expected) -> Iterator[Expected]:
    """`expected` and all that it is made of, at any depth."""
    yield expected
    for part in expected.parts():
        yield from every_part(part)


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where a value is not as expected; ``path`` leads there from the compared value.

    missing: expected, not there (``found`` means nothing). unexpected: there, not expected (``expected`` means
    nothing). different: neither equal nor matched.
    """

    path: Path
    problem: Literal["missing", "unexpected", "different"]
    expected: JsonValue = None
    found: JsonValue = None


def differences(expected: Expected, actual: JsonValue, work: Work, *, partly: bool = False) -> Iterator[Difference]:
    """Where `actual` is not as expected, in the order of the criterion.

    Args:
        expected: the criterion.
        actual: the value found.
        work: as in `Expected.matches`.
        partly: further members of the outermost object are as expected.
    """
    return _differences(expected, actual, work, (), partly)


def _differences(
    expected: Expected, actual: JsonValue, work: Work, path: Path, partly: bool = False
) -> Iterator[Difference]:
    # Recursion goes no deeper than the criterion, so no deeper than matchers.MAX_DEPTH.
    criterion = expected.opened()
    if isinstance(criterion, ExpectedObject) and isinstance(actual, dict):
        for key, member in criterion.members.items():
            if key in actual:
                yield from _differences(member, actual[key], work, (*path, key))
            elif not member.optional:
                yield Difference((*path, key), "missing", expected=member.source)
        for key in actual if not partly else ():
            if key not in criterion.members:
                yield Difference((*path, key), "unexpected", found=actual[key])
    elif isinstance(criterion, ExpectedList) and isinstance(actual, list):
        for i, item in enumerate(criterion.items[: len(actual)]):
            yield from _differences(item, actual[i], work, (*path, i))
        for i, item in enumerate(criterion.items[len(actual) :], len(actual)):
            yield Difference((*path, i), "missing", expected=item.source)
        for i, value in enumerate(actual[len(criterion.items) :], len(criterion.items)):
            yield Difference((*path, i), "unexpected", found=value)
    elif not criterion.matches(actual, work):
        yield Difference(path, "different", expected=expected.source, found=actual)
