"""How the arguments of one expected call are compared with those of a call made: wholly, or how much of them fits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field

from tracegrade.evaluate.criteria.expected import (
    Difference,
    Expected,
    ExpectedObject,
    LiteralValue,
    differences,
)
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.regular_expressions import glob_expression
from tracegrade.evaluate.work import STEPS_OF_A_SEARCH, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Unknown

# exact: the same; superset: the call has at least the expected ones; subset: it has no others; ignore: not compared.
ArgumentsMatch: TypeAlias = Literal["exact", "superset", "subset", "ignore"]


def _check_glob(glob: str) -> str:
    glob_expression(glob)
    return glob


Glob: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_check_glob)]
KeyPath: TypeAlias = Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$")]


class ArgumentsOverride(ParameterModel):
    """How the arguments of one tool are compared, where that differs from the rest."""

    args: Annotated[ArgumentsMatch | None, Field(description="Which of its arguments count.")] = None
    keys: Annotated[list[KeyPath] | None, Field(description="Compare only these, by dotted path.")] = None
    ignore_keys: Annotated[list[Glob] | None, Field(description="Leave these out, by glob of the dotted path.")] = None
    defaults: Annotated[dict[str, Any] | None, Field(description="What they are when they are left out.")] = None


class ArgumentsComparison:
    """The expected arguments of one call, ready to compare.

    Args:
        expected: the arguments; None: any will do.
        match: which arguments count.
        keys: compare these alone, by dotted path; all when there are none.
        ignore_keys: leave out what these globs name, by dotted path.
        defaults: what an argument is when it is left out: saying so, or not, is the same.
    """

    __slots__ = ("_defaults", "_globs", "_keys", "expected", "match")

    def __init__(
        self,
        expected: ExpectedObject | None,
        match: ArgumentsMatch = "exact",
        *,
        keys: Sequence[str] = (),
        ignore_keys: Sequence[str] = (),
        defaults: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.match: ArgumentsMatch = "ignore" if expected is None else match
        self._keys = [tuple(path.split(".")) for path in keys]
        self._globs = [glob_expression(glob) for glob in ignore_keys]
        self._defaults = dict(defaults or {})
        self.expected = self._narrowed(expected) if expected is not None else ExpectedObject({}, {})

    def _narrowed(self, expected: ExpectedObject) -> ExpectedObject:
        if self._defaults and self.match != "superset":
            filled = {key: LiteralValue(value) for key, value in self._defaults.items()} | expected.members
            expected = _object_of(filled)
        if self._globs:
            expected = self._without_ignored(expected, "")
        if self._keys:
            found = {".".join(path): part for path in self._keys if (part := _part_at(expected, path)) is not None}
            expected = _object_of(found)
        return expected

    def _without_ignored(self, expected: ExpectedObject, prefix: str) -> ExpectedObject:
        kept: dict[str, Expected] = {}
        for key, member in expected.members.items():
            if not self._is_ignored(path := prefix + key):
                opened = member.opened()
                if isinstance(opened, ExpectedObject):
                    opened = self._without_ignored(opened, f"{path}.")
                kept[key] = opened
        return _object_of(kept)

    def _is_ignored(self, path: str) -> bool:
        sought = path.encode("utf-8", "replace")
        return any(glob.search(sought) is not None for glob in self._globs)

    def made(self, actual: dict[str, JsonValue], work: Work) -> dict[str, JsonValue]:
        """What is compared of the arguments of a call made."""
        if self._defaults and self.match != "subset":
            actual = {**self._defaults, **actual}
        if self._globs:
            actual = self._without_ignored_of(actual, "", work)
        if self._keys:
            return {".".join(path): value[0] for path in self._keys if (value := _value_at(actual, path))}
        return actual

    def _without_ignored_of(self, actual: dict[str, JsonValue], prefix: str, work: Work) -> dict[str, JsonValue]:
        work.spend(4 + len(actual) * (1 + STEPS_OF_A_SEARCH * len(self._globs)))
        kept: dict[str, JsonValue] = {}
        for key, value in actual.items():
            if not self._is_ignored(path := prefix + key):
                # No deeper than a criterion goes: below that, nothing is left out.
                if isinstance(value, dict) and path.count(".") < _DEEPEST:
                    value = self._without_ignored_of(value, f"{path}.", work)
                kept[key] = value
        return kept

    def holds(self, actual: dict[str, JsonValue] | Unknown, work: Work) -> bool:
        """Whether the arguments of a call made are as expected.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if self.match == "ignore":
            return True
        if isinstance(actual, Unknown):
            return work.takes(actual)
        actual = self.made(actual, work)
        if self.match == "exact":
            return self.expected.accepts(actual, work)
        if self.match == "superset":
            return self.expected.accepts_within(actual, work)
        return self._matched_of(actual, work) == len(actual)

    def share(self, actual: dict[str, JsonValue] | Unknown, work: Work) -> float:
        """How much of the arguments is as expected, 0..1.

        superset: the share of the expected arguments that the call has with an expected value. subset: the share of
        the call's arguments that are expected so. exact: the share, among all names on either side, of those as
        expected; an object inside counts by its own share, as in DeepEval.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if self.match == "ignore":
            return 1.0
        if isinstance(actual, Unknown):
            return float(work.takes(actual))
        actual = self.made(actual, work)
        if self.match == "superset":
            expected = len(self.expected.members)
            return self.expected.matched_members(actual, work) / expected if expected else 1.0
        if self.match == "subset":
            return self._matched_of(actual, work) / len(actual) if actual else 1.0
        return _share(self.expected, actual, work)

    def _matched_of(self, actual: dict[str, JsonValue], work: Work) -> int:
        work.spend(len(actual))
        members = self.expected.members
        return sum(key in members and members[key].accepts(value, work) for key, value in actual.items())

    def differences(self, actual: dict[str, JsonValue], work: Work) -> Iterator[Difference]:
        """Where the arguments of a call made are not as expected.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if self.match == "ignore":
            return
        partly = self.match == "superset"
        for difference in differences(self.expected, self.made(actual, work), work, partly=partly):
            if not (self.match == "subset" and difference.problem == "missing" and len(difference.path) == 1):
                yield difference


_DEEPEST = 64


def _object_of(members: dict[str, Expected]) -> ExpectedObject:
    return ExpectedObject({key: member.source for key, member in members.items()}, members)


def _part_at(expected: ExpectedObject, path: Sequence[str]) -> Expected | None:
    part: Expected = expected
    for key in path:
        opened = part.opened()
        if not isinstance(opened, ExpectedObject) or key not in opened.members:
            return None
        part = opened.members[key]
    return part


def _value_at(actual: dict[str, JsonValue], path: Sequence[str]) -> tuple[JsonValue] | None:
    """The value there, in a tuple since it may be null; None where there is none."""
    value: JsonValue = actual
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return (value,)


def _share(expected: ExpectedObject, actual: dict[str, JsonValue], work: Work) -> float:
    # Recursion goes no deeper than the criterion.
    names = expected.members.keys() | actual.keys()
    work.spend(len(names))
    if not names:
        return 1.0
    total = 0.0
    for key, member in expected.members.items():
        if key not in actual:
            continue
        value = actual[key]
        if member.accepts(value, work):
            total += 1.0
        elif isinstance(value, dict) and isinstance(opened := member.opened(), ExpectedObject):
            total += _share(opened, value, work)
    return total / len(names)
