"""What a criterion expects of a value, compiled: does a value match, and where does it differ?"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tracegrade.display import json_text
from tracegrade.evaluate.json_values import PlainComparison, excerpt, json_equal, plain_comparison
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_mask
from tracegrade.model.tri import Tri, Unknown, all_of

Path: TypeAlias = tuple[str | int, ...]

_MISSING: Any = object()
_MAX_SHOWN = 120  # characters of one value, in words


class MatcherError(ValueError):
    """A criterion that cannot be compiled; ``path`` is where inside the value."""

    def __init__(self, path: Path, message: str) -> None:
        self.path = path
        super().__init__(message)


class Criterion:
    """What is expected, compiled; ``source`` is the criterion as written.

    Abstract, and no ABC: compiled, an ABC takes an instance of one of its subclasses for one of any other.
    """

    __slots__ = ("_text", "source")

    def __init__(self, source: JsonValue) -> None:
        self.source = source
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The JSON of `source`, cut if long; made once."""
        if self._text is None:
            self._text = excerpt(self.source)
        return self._text

    def parts(self) -> Iterable["Expected"]:
        """The criteria that this one is made of, one level down."""
        return ()

    def lookups(self, work: Work) -> "Iterator[Lookup]":
        """What was looked up in the run to compare a value of the call at ``work.position`` with, for people to see."""
        for part in self.parts():
            yield from part.lookups(work)

    @abstractmethod
    def rewritten(self, rewrite: "Callable[[Expected], Expected]") -> "Criterion":
        """The same with what `rewrite` makes of the criterion for the value itself."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r})"


class Expected(Criterion):
    """A criterion for one JSON value.

    ``optional``: it also holds for a member of an object that is not there.
    """

    __slots__ = ()
    optional = False

    @abstractmethod
    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is what was expected; unknown where that depends on what cannot be read.

        Raises:
            EvaluatorError: ``work_bound``.
        """

    def accepts(self, actual: "JsonValue | Unknown", work: Work) -> bool:
        """Whether `actual` counts as what was expected; see `Work.takes`.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        return work.takes(actual if type(actual) is Unknown else self.matches(actual, work))  # type: ignore[arg-type]

    def opened(self) -> "Expected":
        """The same criterion with its members as criteria of their own, where it has members."""
        return self

    def in_words(self) -> str:
        """What it expects of a value, to stand after its name: ``is 'refused'``, ``is at least 100``."""
        return f"is {value_in_words(self.source)}"

    def rewritten(self, rewrite: "Callable[[Expected], Expected]") -> "Expected":
        """What `rewrite` makes of it."""
        return rewrite(self)


class LiteralValue(Expected):
    """The value itself, without matchers inside."""

    __slots__ = ("_plain",)

    def __init__(self, source: JsonValue) -> None:
        super().__init__(source)
        self._plain: PlainComparison | Literal["unknown"] | None = "unknown"

    @property
    def plain(self) -> PlainComparison | None:
        """How it is compared by ``==``, if it can be; worked out once."""
        if self._plain == "unknown":
            self._plain = None if holds_mask(self.source) else plain_comparison(self.source)
        return self._plain

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is equal as a JSON value."""
        if (plain := self.plain) is not None:
            work.spend(plain.steps)
            if plain.equals(actual):
                return True
        elif json_equal(self.source, actual, work):  # masks that look alike say nothing
            return work.unknown_value(actual) if work.redacted and holds_mask(actual) else True
        return self._may_equal(actual, work) if work.redacted else False

    def _may_equal(self, actual: JsonValue, work: Work) -> Tri:
        opened = self.opened()
        return work.hides(actual) if opened is self else opened.matches(actual, work)

    def opened(self) -> Expected:
        """An object or list of literals; a scalar stays what it is."""
        if isinstance(self.source, dict):
            return ExpectedObject(self.source, {key: LiteralValue(member) for key, member in self.source.items()})
        if isinstance(self.source, list):
            return ExpectedList(self.source, [LiteralValue(item) for item in self.source])
        return self


class ExpectedObject(Expected):
    """An object with exactly these members."""

    __slots__ = ("_confusable", "_optional", "_others", "_plain", "_plain_steps", "members")

    def __init__(self, source: JsonValue, members: dict[str, Expected]) -> None:
        super().__init__(source)
        self.members = members
        # Members that are compared by ``==`` are compared here: most are, and calling each costs more than comparing.
        self._plain: dict[str, JsonValue] = {}
        self._confusable: dict[str, PlainComparison] = {}
        self._plain_steps = 1
        self._others: dict[str, Expected] = {}
        self._optional = any(member.optional for member in members.values())
        for key, member in members.items():
            plain = member.plain if isinstance(member, LiteralValue) else None
            if plain is None:
                self._others[key] = member
                continue
            self._plain[key] = plain.value
            self._plain_steps += plain.steps
            if plain.confusable:
                self._confusable[key] = plain

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is an object of these members and no others."""
        if not isinstance(actual, dict):
            work.spend()
            return work.hides(actual)
        if work.is_open(actual):
            found = all_of(self._answers(actual, work))
            return work.unknown_value(actual) if found is True else found
        if not self._others:  # so none is optional
            if len(actual) == len(self._plain):
                work.spend(self._plain_steps)
                if self._plain == actual and (not self._confusable or self._has_kinds_of(actual)):
                    return True
                return all_of(self._answers(actual, work)) if work.redacted else False
        elif len(actual) == len(self.members) if not self._optional else actual.keys() <= self.members.keys():
            return self.matches_within(actual, work)
        work.spend()
        return False

    def matches_within(self, actual: dict[str, JsonValue], work: Work) -> Tri:
        """Whether `actual` has the expected members, whatever else it has; nested values are compared whole."""
        work.spend(self._plain_steps)
        if not self._plain.items() <= actual.items():  # the machine compares as `==` does
            return all_of(self._answers(actual, work)) if work.redacted else False
        if self._confusable and not self._has_kinds_of(actual):
            return False
        unknown: Unknown | None = None
        for key, member in self._others.items():
            found = member.matches(actual[key], work) if key in actual else self._holds_without(member, actual, work)
            if found is False:
                return False
            if found is not True:
                unknown = found if unknown is None else unknown
        return True if unknown is None else unknown

    def accepts_within(self, actual: dict[str, JsonValue] | Unknown, work: Work) -> bool:
        """Whether `actual` counts as having the expected members; see `Work.takes`.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        found = actual if isinstance(actual, Unknown) else self.matches_within(actual, work)
        return found if found is True or found is False else work.takes(found)

    def _holds_without(self, member: Expected, actual: dict[str, JsonValue], work: Work) -> Tri:
        """Whether a member holds that is not there, or where members were lost may have been."""
        return work.unknown_value(actual) if work.is_open(actual) else member.optional

    def _answers(self, actual: dict[str, JsonValue], work: Work) -> Iterator[Tri]:
        """Whether `actual` has each of the expected members."""
        for key, one in self.members.items():
            yield one.matches(actual[key], work) if key in actual else self._holds_without(one, actual, work)

    def matched_members(self, actual: dict[str, JsonValue], work: Work) -> int:
        """How many of the expected members `actual` has, or counts as having; see `Work.takes`."""
        if work.redacted:
            return sum(map(work.takes, self._answers(actual, work)))
        work.spend(self._plain_steps)
        plain = self._plain
        matched = len(plain)
        if not plain.items() <= actual.items():  # the machine compares as `==` does
            for key, value in plain.items():
                if actual.get(key, _MISSING) != value:
                    matched -= 1
        for key, kinds in self._confusable.items():
            if actual.get(key, _MISSING) == kinds.value and not kinds.has_kinds_of(actual[key]):
                matched -= 1
        for key, member in self._others.items():
            matched += member.accepts(actual[key], work) if key in actual else member.optional
        return matched

    def _has_kinds_of(self, actual: Mapping[str, JsonValue]) -> bool:
        for key, plain in self._confusable.items():  # noqa: SIM110  # asked for most calls; all() takes twice as long
            if not plain.has_kinds_of(actual[key]):
                return False
        return True

    def parts(self) -> Iterable[Expected]:
        """The members."""
        return self.members.values()

    def in_words(self) -> str:
        """The words of each member."""
        if not self.members:
            return super().in_words()
        members = " and ".join(f"{name} {member.in_words()}" for name, member in self.members.items())
        return f"is an object whose {members}"


class ExpectedList(Expected):
    """A list of exactly these items, in this order."""

    __slots__ = ("items",)

    def __init__(self, source: JsonValue, items: list[Expected]) -> None:
        super().__init__(source)
        self.items = items

    def matches(self, actual: JsonValue, work: Work) -> Tri:
        """Whether `actual` is a list of as many items, each as expected."""
        work.spend()
        if not isinstance(actual, list):
            return work.hides(actual)
        if len(actual) != len(self.items):
            return False
        return all_of(item.matches(value, work) for item, value in zip(self.items, actual, strict=True))

    def parts(self) -> Iterable[Expected]:
        """The items."""
        return self.items

    def in_words(self) -> str:
        """The words of each item."""
        return f"is a list whose items, in this order: {', '.join(item.in_words() for item in self.items)}"


def value_in_words(value: JsonValue) -> str:
    """A value of a criterion, cut if long: a text in quotes, all else as JSON."""
    text = value if isinstance(value, str) else json_text(value)
    text = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    return f"'{text}'" if isinstance(value, str) else text


def members_in_words(path: str, expected: Expected) -> Iterator[str]:
    """Each thing that is expected of what stands at `path`."""
    opened = expected.opened()
    if isinstance(opened, ExpectedObject) and opened.members:
        for name, member in opened.members.items():
            yield f"{path}.{name} {member.in_words()}"
    else:
        yield f"{path} {expected.in_words()}"


def every_part(expected: Criterion) -> Iterator[Criterion]:
    """`expected` and all that it is made of, at any depth."""
    yield expected
    for part in expected.parts():
        yield from every_part(part)


@dataclass(frozen=True, slots=True)
class LookupPlace:
    """One place at which an expected value was looked up: a call of the run, by its number there from 1, or the prompt.

    ``found`` are the values that stood there, none where the path leads nowhere or it cannot be read.
    """

    source: str
    number: int | None = None
    tool: str = ""
    span_id: str = ""
    found: Sequence[JsonValue] = ()
    readable: bool = True


@dataclass(frozen=True, slots=True)
class Lookup:
    """What one criterion looked up: the nearest calls of each source, and the tools that were not called before.

    ``before`` is the tool of the call that was compared, "" when that is none. ``elsewhere`` has, by tool, the agent
    (perhaps "") of another run of the trace that did call it before.
    """

    looked_at: Sequence[LookupPlace]
    not_called: Sequence[str]
    before: str
    elsewhere: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where a value is not as expected; ``path`` leads there from the compared value.

    missing: expected, not there (``found`` means nothing). unexpected: there, not expected (``expected`` means
    nothing). different: neither equal nor matched. ``lookups`` are what the criterion looked up in the run.
    """

    path: Path
    problem: Literal["missing", "unexpected", "different"]
    expected: JsonValue = None
    found: JsonValue = None
    lookups: Sequence[Lookup] = ()


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
                lookups = tuple(member.lookups(work))
                yield Difference((*path, key), "missing", expected=member.source, lookups=lookups)
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
    elif criterion.matches(actual, work) is not True:
        lookups = tuple(expected.lookups(work))
        yield Difference(path, "different", expected=expected.source, found=actual, lookups=lookups)
