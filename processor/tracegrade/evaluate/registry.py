"""All evaluators by name, in the order in which tables show them; and those in force: ours, and those of packages.

The module of an evaluator is imported when a rule, a case or a table first asks for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from tracegrade.evaluate.evaluator import Evaluator

# Where each is: the module in evaluators/, and its name there.
PLACES: dict[str, str] = {
    "tool-call-order": "tool_call_order.EVALUATOR",
    "tool-call-args": "call_by_call.TOOL_CALL_ARGS",
    "tool-call-output": "call_by_call.TOOL_CALL_OUTPUT",
    "tool-call-count": "tool_call_count.EVALUATOR",
    "tool-call-accuracy": "tool_call_accuracy.EVALUATOR",
    "trajectory": "trajectory.EVALUATOR",
    "partial-order": "partial_order.EVALUATOR",
    "ragas-tool-call-accuracy": "ragas_tool_call_accuracy.EVALUATOR",
    "ragas-tool-call-f1": "ragas_tool_call_f1.EVALUATOR",
    "tool-selection": "tool_case.TOOL_SELECTION",
    "param-accuracy": "tool_case.PARAM_ACCURACY",
    "overall-score": "tool_case.OVERALL_SCORE",
    "tool-case": "tool_case.TOOL_CASE",
    "multi-turn": "tool_case.MULTI_TURN",
    "abstention": "abstention.EVALUATOR",
    "schema-validation": "schema_validation.EVALUATOR",
    "exact-match": "expected_output.EXACT_MATCH",
    "contains": "contains.EVALUATOR",
    "json-similarity": "expected_output.JSON_SIMILARITY",
    "grounded-answer": "grounded_answer.EVALUATOR",
    "loop-repetition": "loop_repetition.EVALUATOR",
    "tool-permission": "tool_permission.EVALUATOR",
    "args-schema": "args_schema.EVALUATOR",
    "budget": "budget.EVALUATOR",
    "data-flow": "data_flow.EVALUATOR",
    "handoffs": "handoffs.EVALUATOR",
    "constraints": "constraints.EVALUATOR",
    "condition": "condition.EVALUATOR",
}


class Evaluators(Mapping[str, Evaluator[Any, Any]]):
    """The evaluators of `PLACES`, imported one by one as they are asked for, then `added`."""

    def __init__(self, added: Mapping[str, Evaluator[Any, Any]]) -> None:
        self._loaded = {**added}
        self._names = [*PLACES, *added]

    def __getitem__(self, name: str) -> Evaluator[Any, Any]:
        if name not in self._loaded:
            module, _, attribute = PLACES[name].partition(".")
            self._loaded[name] = getattr(import_module(f"tracegrade.evaluate.evaluators.{module}"), attribute)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in PLACES or name in self._loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


EVALUATORS = Evaluators({})


class Package(NamedTuple):
    """The installed package that an evaluator comes from."""

    name: str
    version: str


_in_force = EVALUATORS
_packages: Mapping[str, Package] = {}


def evaluators() -> Evaluators:
    """All that a rule may name: ours, then those of installed packages."""
    return _in_force


def packages() -> Mapping[str, Package]:
    """Where evaluators come from, by their names; ours are not among them."""
    return _packages


def put_beside(added: Iterable[Evaluator[Any, Any]], packages: Mapping[str, Package]) -> None:
    """Have rules name `added`, of installed packages, beside ours: before a process reads its first rule."""
    global _in_force, _packages
    _in_force = Evaluators({evaluator.name: evaluator for evaluator in added})
    _packages = packages
