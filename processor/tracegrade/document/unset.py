"""Parts of a settings file that name unset environment variables: needed only by what reads them.

A command that lists results needs no key of redaction. So these parts are left out of what is checked, and an `Unset`
stands for each: whatever looks into it raises the error that names the variable and its line.
"""

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from tracegrade.document.document import Document
from tracegrade.document.problem import Location, Problem, UnsetError


class Unset:
    """Stands for settings that could not be read; whoever looks into them is told why."""

    __slots__ = ("_problems",)

    def __init__(self, problems: Collection[Problem]) -> None:
        self._problems = problems

    def refuse(self, *_: object) -> NoReturn:
        """Raise the error that names the variables."""
        raise UnsetError(self._problems)

    __getattr__ = __getitem__ = __contains__ = __iter__ = __len__ = __bool__ = __str__ = __fspath__ = refuse


def leave_out_unset(document: Document, together: Collection[Collection[Location]]) -> dict[Location, Unset]:
    """Take the parts that name unset variables out of the document's value.

    Args:
        document: a file whose value is a mapping; else the problems are raised.
        together: parts that are left out alone, all of one collection at a time; else it is the whole section.

    Returns:
        What stands for each part that was left out.

    Raises:
        UnsetError: nothing can be left out, since the file as a whole is one variable.
    """
    found: dict[Location, list[Problem]] = {}
    for place, problem in document.unset.items():
        if not place:
            raise UnsetError([problem])
        parts = next((parts for parts in together if any(place[: len(part)] == part for part in parts)), [place[:1]])
        for part in parts:
            found.setdefault(part, []).append(problem)
    for part in found:
        *outer, last = part
        holder = document.at(tuple(outer))
        if isinstance(holder, dict):
            holder.pop(str(last), None)
    return {part: Unset(problems) for part, problems in found.items()}


def put_in_place(model: Any, left_out: Mapping[Location, Unset]) -> None:
    """Let each `Unset` stand in the checked `model` where its part was left out."""
    for (*outer, last), unset in left_out.items():
        holder = model
        for name in outer:
            holder = vars(holder)[name]
        if not isinstance(holder, Unset):
            vars(holder)[last] = unset  # the models are frozen for everybody else
