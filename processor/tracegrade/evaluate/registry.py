"""All evaluators by name, in the order that tables show them."""

from typing import Any

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
