"""One tool under several names: which name rules know it by."""

from collections.abc import Mapping, Sequence

from tracegrade.evaluate.criteria.regular_expressions import glob_expression, is_glob
from tracegrade.rule.glob_table import GlobTable
from tracegrade.rule.mistakes import mistake, refuse


class ToolAliases:
    """From the names under which calls come to those that rules use; called with the one, gives the other.

    Of several aliases that fit, one is chosen as in `GlobTable`.
    """

    def __init__(self, aliases: Mapping[str, Sequence[str]]) -> None:
        own = [(name, name) for name in aliases]
        self._names = GlobTable([*own, *((other, name) for name, others in aliases.items() for other in others)])
        self._any = bool(aliases)

    def __bool__(self) -> bool:
        return self._any

    def __call__(self, raw_name: str) -> str:
        """The name that rules use for the tool called `raw_name`: that name itself when no alias fits."""
        return self._names.find(raw_name) or raw_name


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
