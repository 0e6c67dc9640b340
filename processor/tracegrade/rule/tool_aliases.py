"""One tool under several names: which name rules know it by."""

from collections.abc import Mapping, Sequence
from typing import Any

from tracegrade.evaluate.criteria.regular_expressions import glob_expression, is_glob
from tracegrade.rule.mistakes import mistake, refuse
from tracegrade.rule.patterns import LONGEST_REMEMBERED, MEMO_SIZE


class ToolAliases:
    """From the names under which calls come to those that rules use; called with the one, gives the other.

    A name written out wins over globs, and of several globs that fit the longest, then the first by alphabet: the
    order in which aliases are written does not matter.
    """

    def __init__(self, aliases: Mapping[str, Sequence[str]]) -> None:
        self._exact = {name: name for name in aliases}
        globs: list[tuple[str, str]] = []
        for name, others in aliases.items():
            for other in others:
                if is_glob(other):
                    globs.append((other, name))
                else:
                    self._exact[other] = name
        globs.sort(key=lambda item: (-len(item[0]), item))
        self._globs: list[tuple[Any, str]] = [(glob_expression(glob), name) for glob, name in globs]
        self._memo: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._exact)

    def __call__(self, raw_name: str) -> str:
        """The name that rules use for the tool called `raw_name`: that name itself when no alias fits."""
        found = self._exact.get(raw_name) or self._memo.get(raw_name)
        if found is None:
            sought = raw_name.encode("utf-8", "replace")
            names = (name for expression, name in self._globs if expression.search(sought) is not None)
            found = next(names, raw_name)
            if len(self._memo) >= MEMO_SIZE:
                self._memo.clear()
            if len(raw_name) <= LONGEST_REMEMBERED:
                self._memo[raw_name] = found
        return found


def check_aliases(aliases: dict[str, list[str]]) -> dict[str, list[str]]:
    """`aliases` as they are; refused when one name stands for two tools, or a glob is none."""
    mistakes = []
    taken: dict[str, str] = {}
    for name, others in aliases.items():
        if is_glob(name) or not name:
            mistakes.append(
                mistake(f"expected the one name that rules use, found {name!r}; globs go to the right", name)
            )
        if not others:
            mistakes.append(mistake("expected at least one other name, found an empty list", name))
        for place, other in enumerate(others):
            try:
                glob_expression(other)
            except ValueError as error:
                mistakes.append(mistake(str(error), name, place))
            if other in aliases:
                mistakes.append(
                    mistake(f"{other!r} is itself the name of a tool here; choose one of both", name, place)
                )
            elif taken.setdefault(other, name) != name:
                text = f"{other!r} is an alias of {taken[other]!r} already; a name stands for one tool"
                mistakes.append(mistake(text, name, place))
    if mistakes:
        raise refuse(mistakes)
    return aliases
