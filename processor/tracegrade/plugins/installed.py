"""The dialects and evaluators of installed packages, put in force once in a process."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tracegrade.extract.reading import Dialect
from tracegrade.plugins import dialects, entry_points
from tracegrade.plugins.entry_points import DIALECTS, EVALUATORS, Plugin

if TYPE_CHECKING:
    from tracegrade.evaluate.evaluator import Evaluator


@dataclass(frozen=True, slots=True)
class Plugins:
    """Additions of installed packages, each by name."""

    dialects: tuple[Plugin[Dialect], ...]
    evaluators: "tuple[Plugin[Evaluator[Any, Any]], ...]"


@cache
def load_plugins() -> Plugins:
    """Find what installed packages add, and put it in force for the rest of the process; done when first asked.

    Raises:
        TraceGradeError: one cannot be used.
    """
    # Nearly never is anything installed, and a command that reads no trace, or judges none, does not wait for ours.
    if found := entry_points.load(DIALECTS, Dialect):
        dialects.put_in_force(found)
    return Plugins(tuple(found), _evaluators() if entry_points.points(EVALUATORS) else ())


def _evaluators() -> "tuple[Plugin[Evaluator[Any, Any]], ...]":
    from tracegrade.evaluate.evaluator import Evaluator
    from tracegrade.plugins import evaluators

    found = entry_points.load(EVALUATORS, Evaluator)
    evaluators.put_in_force(found)
    return tuple(found)
