"""All evaluators by name, in the order in which tables show them; and those in force: ours, and those of packages."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tracegrade.evaluate.evaluator import Evaluator
from tracegrade.evaluate.evaluators import (
    abstention,
    args_schema,
    budget,
    condition,
    constraints,
    contains,
    data_flow,
    exact_match,
    grounded_answer,
    handoffs,
    json_similarity,
    loop_repetition,
    multi_turn,
    overall_score,
    param_accuracy,
    partial_order,
    ragas_tool_call_accuracy,
    ragas_tool_call_f1,
    schema_validation,
    tool_call_accuracy,
    tool_call_args,
    tool_call_count,
    tool_call_order,
    tool_call_output,
    tool_case,
    tool_permission,
    tool_selection,
    trajectory,
)

EVALUATORS: dict[str, Evaluator[Any, Any]] = {
    "tool-call-order": tool_call_order.EVALUATOR,
    "tool-call-args": tool_call_args.EVALUATOR,
    "tool-call-output": tool_call_output.EVALUATOR,
    "tool-call-count": tool_call_count.EVALUATOR,
    "tool-call-accuracy": tool_call_accuracy.EVALUATOR,
    "trajectory": trajectory.EVALUATOR,
    "partial-order": partial_order.EVALUATOR,
    "ragas-tool-call-accuracy": ragas_tool_call_accuracy.EVALUATOR,
    "ragas-tool-call-f1": ragas_tool_call_f1.EVALUATOR,
    "tool-selection": tool_selection.EVALUATOR,
    "param-accuracy": param_accuracy.EVALUATOR,
    "overall-score": overall_score.EVALUATOR,
    "tool-case": tool_case.EVALUATOR,
    "multi-turn": multi_turn.EVALUATOR,
    "abstention": abstention.EVALUATOR,
    "schema-validation": schema_validation.EVALUATOR,
    "exact-match": exact_match.EVALUATOR,
    "contains": contains.EVALUATOR,
    "json-similarity": json_similarity.EVALUATOR,
    "grounded-answer": grounded_answer.EVALUATOR,
    "loop-repetition": loop_repetition.EVALUATOR,
    "tool-permission": tool_permission.EVALUATOR,
    "args-schema": args_schema.EVALUATOR,
    "budget": budget.EVALUATOR,
    "data-flow": data_flow.EVALUATOR,
    "handoffs": handoffs.EVALUATOR,
    "constraints": constraints.EVALUATOR,
    "condition": condition.EVALUATOR,
}


class Package(NamedTuple):
    """The installed package that an evaluator comes from."""

    name: str
    version: str


_in_force: Mapping[str, Evaluator[Any, Any]] = EVALUATORS
_packages: Mapping[str, Package] = {}


def evaluators() -> Mapping[str, Evaluator[Any, Any]]:
    """All that a rule may name: ours, then those of installed packages."""
    return _in_force


def packages() -> Mapping[str, Package]:
    """Where evaluators come from, by their names; ours are not among them."""
    return _packages


def put_beside(added: Iterable[Evaluator[Any, Any]], packages: Mapping[str, Package]) -> None:
    """Have rules name `added`, of installed packages, beside ours: before a process reads its first rule."""
    global _in_force, _packages
    _in_force = {**EVALUATORS, **{evaluator.name: evaluator for evaluator in added}}
    _packages = packages
