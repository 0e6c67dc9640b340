"""All evaluators by name, in the order that tables show them; and those that installed packages add."""

from functools import cache
from typing import TYPE_CHECKING, Any

from tracegrade.evaluate import (
    abstention,
    args_schema,
    budget,
    contains,
    exact_match,
    json_similarity,
    loop_repetition,
    multi_turn,
    overall_score,
    param_accuracy,
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
from tracegrade.evaluate.evaluator import Evaluator

if TYPE_CHECKING:
    from tracegrade.plugins import Plugin

EVALUATORS: dict[str, Evaluator[Any, Any]] = {
    "tool-call-order": tool_call_order.EVALUATOR,
    "tool-call-args": tool_call_args.EVALUATOR,
    "tool-call-output": tool_call_output.EVALUATOR,
    "tool-call-count": tool_call_count.EVALUATOR,
    "tool-call-accuracy": tool_call_accuracy.EVALUATOR,
    "trajectory": trajectory.EVALUATOR,
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
    "loop-repetition": loop_repetition.EVALUATOR,
    "tool-permission": tool_permission.EVALUATOR,
    "args-schema": args_schema.EVALUATOR,
    "budget": budget.EVALUATOR,
}


@cache
def custom() -> "dict[str, Plugin[Evaluator[Any, Any]]]":
    """The evaluators of installed packages, by name; looked for when first asked.

    Raises:
        PluginError: one cannot be used.
    """
    from tracegrade.evaluate.custom import custom_evaluators

    return {plugin.name: plugin for plugin in custom_evaluators(EVALUATORS)}


@cache
def evaluators() -> dict[str, Evaluator[Any, Any]]:
    """All that a rule may name: ours, then those of installed packages.

    Raises:
        PluginError: as `custom`.
    """
    return {**EVALUATORS, **{name: plugin.member for name, plugin in custom().items()}}
