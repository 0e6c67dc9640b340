"""Parts: folders of the package that can be taken out, and what each of them adds to the rest.

A part is a folder with a ``part.py``, which holds its `Part`. Commands, settings, tables, pages and operations of the
parts that are there are found here, by name and not by import: nothing outside a part imports it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from tracegrade.model.errors import NotPossible

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Named:
    """What a part is known by where it is not there: the paths of its commands, and the names of its settings."""

    name: str
    commands: Sequence[str] = ()
    settings: Sequence[str] = ()


PARTS = (
    Named("compare", commands=("check", "compare", "gate", "baseline", "rules backtest")),
    Named("suites", commands=("suite", "jobs", "rules import", "rules export"), settings=("suites",)),
)
"""All parts. One is there if its folder is."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a part.

    ``path`` is what follows ``tracegrade``: ``suite``, or ``rules import`` in a group of the core. ``target`` is the
    click command as ``module:name``. ``help`` is its line in ``tracegrade --help``, where it comes after the command
    ``after``; within groups, commands come in alphabetical order.
    """

    path: str
    target: str
    help: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page: its address, its name, and the address of the section that it follows.

    Sections of one ``group`` are one item of the navigation, by its name; ``about`` tells them apart.
    """

    address: str
    name: str
    after: str = ""
    group: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """A section of the settings: its name, its model as ``module:name``, and its line in the reference."""

    name: str
    model: str
    about: str


@dataclass(frozen=True, slots=True)
class Part:
    """What a part adds. Code is named as ``module:name`` and imported when it is used.

    ``tables`` is the module that declares its tables. ``web`` is its `tracegrade.web.part.WebPart`. ``functions`` are
    called by the core where a part takes part in its work: name -> function; `offered` and `needed` give them.
    """

    name: str
    commands: Sequence[Command] = ()
    sections: Sequence[Section] = ()
    settings: Sequence[Settings] = ()
    tables: str | None = None
    web: str | None = None
    functions: Mapping[str, str] = field(default_factory=dict)


class NeedsPart(NotPossible):
    """Something of a part was asked for that is not there."""

    def __init__(self, what: str, part: str) -> None:
        super().__init__(f'{what} needs the part "{part}", which this installation of TraceGrade does not have')


@cache
def parts() -> tuple[Part, ...]:
    """The parts that are there, in the order of `PARTS`."""
    packages = (f"tracegrade.{named.name}" for named in PARTS)
    # A folder in which nothing is left but compiled files is a package, too, and has no part.py.
    there = (package for package in packages if find_spec(package) and find_spec(f"{package}.part"))
    return tuple(import_module(f"{package}.part").PART for package in there)


def load(target: str) -> Any:
    """The object that is named as ``module:name``."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def offered(function: str) -> list[Any]:
    """The functions of this name of all parts that are there."""
    return [load(part.functions[function]) for part in parts() if function in part.functions]


def needed(part: str, function: str, what: str) -> Any:
    """The function of this name of `part`.

    Raises:
        NeedsPart: the part is not there; the error says that `what` needs it.
    """
    for found in parts():
        if found.name == part:
            return load(found.functions[function])
    raise NeedsPart(what, part)


def missing(*, command: str = "", setting: str = "") -> str | None:
    """The name of the part, not there, that has a command or a setting; None if no part has, or it is there."""
    there = {part.name for part in parts()}
    lacking = (named for named in PARTS if named.name not in there)
    return next((named.name for named in lacking if command in named.commands or setting in named.settings), None)


def placed(items: Mapping[str, _Item], added: Sequence[tuple[str, str, _Item]]) -> dict[str, _Item]:
    """`items` with those of parts: ``(key, the key that it follows, item)`` each."""
    order = list(items.items())
    for key, after, item in added:
        order.insert([name for name, _ in order].index(after) + 1, (key, item))
    return dict(order)
