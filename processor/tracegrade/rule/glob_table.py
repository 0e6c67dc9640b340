"""A table by names, some of which are globs: what belongs to a name."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from tracegrade.evaluate.criteria.regular_expressions import glob_expression, is_glob
from tracegrade.rule.patterns import LONGEST_REMEMBERED, MEMO_SIZE

_T = TypeVar("_T")


class GlobTable(Generic[_T]):
    """From names and globs to what belongs to each.

    A name written out wins over globs, and of several globs that fit the longest, then the first by alphabet: the
    order in which they are written does not matter.

    Raises:
        ValueError: a glob is none.
    """

    def __init__(self, entries: Iterable[tuple[str, _T]]) -> None:
        given = dict(entries)
        self._exact = {name: value for name, value in given.items() if not is_glob(name)}
        globs = sorted((name for name in given if is_glob(name)), key=lambda glob: (-len(glob), glob))
        self._globs: list[tuple[Any, _T]] = [(glob_expression(glob), given[glob]) for glob in globs]
        self._memo: dict[str, _T | None] = {}

    def find(self, name: str) -> _T | None:
        """The value given for `name`, else for the longest glob that it matches; None without either."""
        if name in self._exact:
            return self._exact[name]
        if name in self._memo:
            return self._memo[name]
        sought = name.encode("utf-8", "replace")
        found = next((value for expression, value in self._globs if expression.search(sought) is not None), None)
        if len(self._memo) >= MEMO_SIZE:
            self._memo.clear()
        if len(name) <= LONGEST_REMEMBERED:
            self._memo[name] = found
        return found
