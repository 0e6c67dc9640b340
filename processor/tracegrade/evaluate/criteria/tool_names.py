"""Expected tool names: one, or several, any of which is right, and how they are compared with the names called."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from tracegrade.evaluate.criteria.regular_expressions import glob_expression, is_glob

ToolName: TypeAlias = Annotated[str, Field(min_length=1)]
ToolNames: TypeAlias = ToolName | Annotated[list[ToolName], Field(min_length=1)]

# exact; case_insensitive; glob: *, ? and [abc]; normalized: as UiPath's agents name tools, see `normalized`.
NameComparison: TypeAlias = Literal["exact", "case_insensitive", "glob", "normalized"]

# Distinct names remembered; tools are few, but a hostile trace may call anything.
_REMEMBERED = 4096
_LONGEST_REMEMBERED = 256
_LONGEST_NORMALIZED = 64


def listed_names(names: str | Sequence[str]) -> Sequence[str]:
    """One name as a list of one."""
    return [names] if isinstance(names, str) else names


def normalized(name: str) -> str:
    """`name` with runs of whitespace as ``_``, other than letters, digits, ``_`` and ``-`` left out, cut at 64.

    A name of which nothing is left stays as it is: two names in Chinese are not the same.

    Source: UiPath/uipath-python, how agent tools are named for models.
    """
    folded = re.sub(r"[^A-Za-z0-9_-]", "", re.sub(r"\s+", "_", name.strip()))[:_LONGEST_NORMALIZED]
    return folded or name


_FOLDS: dict[NameComparison, Callable[[str], str]] = {
    "exact": lambda name: name,
    "case_insensitive": str.lower,
    "normalized": normalized,
}


class NameTable:
    """Several expectations of a tool's name: which of them does a name called meet?

    Raises:
        ValueError: a glob that is none.
    """

    __slots__ = ("_exact", "_fold", "_globs", "_known")

    def __init__(self, expected: Iterable[str | Sequence[str]], comparison: NameComparison = "exact") -> None:
        self._fold = _FOLDS.get(comparison, _FOLDS["exact"])
        self._exact: dict[str, list[int]] = {}
        self._globs = []
        for index, names in enumerate(expected):
            for name in listed_names(names):
                if comparison == "glob" and is_glob(name):
                    self._globs.append((index, glob_expression(name)))
                elif index not in (places := self._exact.setdefault(self._fold(name), [])):
                    places.append(index)
        self._known: dict[str, Sequence[int]] = {}

    def met_by(self, name: str) -> Sequence[int]:
        """The positions of the expectations that `name` meets, ascending."""
        found = self._known.get(name)
        if found is None:
            found = self._exact.get(self._fold(name), ())
            if self._globs:
                sought = name.encode("utf-8", "replace")
                found = sorted({*found, *(i for i, glob in self._globs if glob.search(sought) is not None)})
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            if len(name) <= _LONGEST_REMEMBERED:
                self._known[name] = found
        return found
