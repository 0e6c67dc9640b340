"""Mistakes in files, said in words: where each one stands, and which name was probably meant."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from tracegrade.model.errors import TraceGradeError

Location = tuple[str | int, ...]

MEANT_OPERATORS = {"=<": "<=", "=>": ">=", "<>": "!=", "=!": "!=", "≤": "<=", "≥": ">=", "≠": "!="}
"""Misspelt operators, and what is meant."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake in one file; ``line`` and ``column`` count from 1, and are 0 where it is about the path itself."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}" if self.line else f"{self.path}: {self.message}"


class FileError(TraceGradeError):
    """One or more mistakes in YAML files; ``str()`` gives one ``file:line:column: message`` a line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))


class WrongWord(ValueError):
    """A mistake in a text of a file, at the first `written` in it."""

    def __init__(self, message: str, written: str) -> None:
        super().__init__(message)
        self.written = written


class UnsetError(FileError):
    """Files name environment variables that are not set."""


def dotted(location: Location) -> str:
    """``("a", 0, "b")`` as ``a[0].b``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` when one of `known` is near `name`, else the list of them when it is short."""
    names = sorted(known)
    if close := get_close_matches(name, names, n=1, cutoff=0.6):
        return f"; did you mean {close[0]!r}?"
    return f"; expected one of {', '.join(names)}" if 0 < len(names) <= 12 else ""
