"""An evaluator in a file beside the rule: what a rule keeps of it, and how errors name it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.model.errors import TraceGradeError


class NoEvaluatorFile(TraceGradeError):
    """A rule names a file that is not there, must not be run, or holds no evaluator; the message says which."""


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
"""Reads the file that a rule names; raises NoEvaluatorFile."""

CODE = "code"
"""The key of the `FindFile` in the context by which a rule is validated; without one, no file may be named."""

FILE_FORM = r"\.\.?(/[A-Za-z0-9_.-]+)+\.py"
"""How a rule writes a file: a regular expression."""

NOT_FROM_A_FILE = (
    "the file {written} is code, which runs only for a rule in a file on this machine, and never for a rule that was "
    "sent, stored or imported; name an evaluator, or put both files into a folder of rules.paths"
)


def names_a_file(name: str) -> bool:
    """Whether an item means a file by what it names: no name of an evaluator has a slash or a dot."""
    return "/" in name or name.endswith(".py")


def named_line(written: str, place: str, bug: BaseException) -> str:
    """``./amounts.py:12``, where `bug` came through line 12 of the code that was compiled as `place`."""
    line = None
    frame = bug.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == place:
            line = frame.tb_lineno
        frame = frame.tb_next
    return written if line is None else f"{written}:{line}"
