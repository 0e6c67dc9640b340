"""An evaluator in a file beside the rule: what a rule keeps of it, and how errors name it."""

import posixpath
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeAlias

from tracegrade.evaluate.evaluator import Evaluator, ParameterModel
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.model.errors import WrongValue


@dataclass(frozen=True, slots=True)
class EvaluatorFile:
    """A file that a rule names in place of an evaluator.

    Attributes:
        evaluator: what it holds.
        written: its path from the rule's file on, in one form, such as ``./amounts.py``.
        digest: 16 hex digits over its bytes.
        place: the name that the frames of its functions have.
    """

    evaluator: Evaluator[Any, Any]
    written: str
    digest: str
    place: str

    def where(self, bug: BaseException) -> str:
        """The file, and the last of its lines that `bug` came through, if it came through any."""
        return named_line(self.written, self.place, bug)


FindFile: TypeAlias = Callable[[str], EvaluatorFile]
"""Reads the file that a rule names; raises WrongValue."""

CODE = "code"
"""The key of the `FindFile` in the context by which a rule is validated; without one, no file may be named."""

FILE_FORM = r"\.\.?(/[A-Za-z0-9_.-]+)*/[a-z0-9]+([_-][a-z0-9]+)*\.py"
"""How a rule writes a file: a regular expression."""

NOT_FROM_A_FILE = (
    "the file {written} is code, which runs only for a rule in a file on this machine, and never for a rule that was "
    "sent, stored or imported; name an evaluator, or put both files into a folder of rules.paths"
)


def names_a_file(name: str) -> bool:
    """Whether an item means a file by what it names: no name of an evaluator has a slash or a dot."""
    return "/" in name or name.endswith(".py")


MOST_LINES = 10_000_000
"""So many of its own lines a file may run while rules are read; as it judges, the watchdog looks at it."""


class StillRunning(BaseException):
    """Code of a file has no end; not an Exception, which that code might catch."""


@contextmanager
def ending(place: str) -> Iterator[None]:
    """Have code that was compiled as `place` end within `MOST_LINES`, with `StillRunning` if need be.

    What it calls elsewhere is not counted: a file that waits is not ended.
    """
    left = MOST_LINES

    def at_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise StillRunning(f"it has not ended after {MOST_LINES:,} of its lines")
        return at_line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: at_line if frame.f_code.co_filename == place else None)
    try:
        yield
    finally:
        sys.settrace(before)


def bug_text(bug: BaseException) -> str:
    """An error that code of a file raised, in words."""
    return str(bug) if isinstance(bug, StillRunning) else f"{type(bug).__name__}: {bug}".removesuffix(": ")


def one_form(named: str) -> str:
    """A path as `EvaluatorFile.written` has it, however the rule writes it."""
    normal = posixpath.normpath(named)
    return normal if normal.startswith("../") else f"./{normal}"


def evaluator_name(written: str) -> str:
    """The name of the evaluator in a file: the file's, with ``-`` for each ``_``."""
    return written.rpartition("/")[2].removesuffix(".py").replace("_", "-")


class Unread(ParameterModel):
    """What a rule says to an evaluator whose file was not run: nobody knows its fields."""


class _Unset(ParameterModel):
    """None of its settings are known."""


def not_run(written: str, digest: str = "", attributes: frozenset[str] = frozenset()) -> EvaluatorFile:
    """Stands for the file that the stored text of a rule names: such a rule is shown and counted, it never judges.

    `attributes` are those that the rule read by it.
    """

    def score(evidence: Evidence, criteria: Unread, settings: _Unset) -> Score:
        raise WrongValue(NOT_FROM_A_FILE.format(written=written))

    evaluator = Evaluator(
        name=evaluator_name(written),
        summary=f"As the file {written} says.",
        Criteria=Unread,
        Settings=_Unset,
        score=score,
        attributes=attributes,
    )
    return EvaluatorFile(evaluator, written, digest, place="")


def named_line(written: str, place: str, bug: BaseException) -> str:
    """``./amounts.py:12``, where `bug` came through line 12 of the code that was compiled as `place`."""
    line = None
    frame = bug.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == place:
            line = frame.tb_lineno
        frame = frame.tb_next
    return written if line is None else f"{written}:{line}"
