"""The dialects and evaluators of installed packages, put in force once in a process."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.extract.reading import Dialect
from tracegrade.plugins import dialects, entry_points, evaluators
from tracegrade.plugins.entry_points import Plugin


@dataclass(frozen=True, slots=True)
class Plugins:
    """What installed packages add, each by name."""

    dialects: tuple[Plugin[Dialect], ...]
    evaluators: tuple[Plugin[Evaluator[Any, Any]], ...]


@cache
def load_plugins() -> Plugins:
    """Find what installed packages add, and put it in force for the rest of the process; done when first asked.

    Raises:
        PluginError: one cannot be used.
    """
    found = Plugins(
        tuple(entry_points.load(dialects.GROUP, Dialect)), tuple(entry_points.load(evaluators.GROUP, Evaluator))
    )
    if found.dialects:  # nearly never, and who reads no trace does not wait for ours
        dialects.put_in_force(found.dialects)
    if found.evaluators:
        evaluators.put_in_force(found.evaluators)
    return found
