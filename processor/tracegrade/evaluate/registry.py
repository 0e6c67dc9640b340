"""All evaluators by name, in the order that tables show them."""

from typing import Any

from tracegrade.evaluate import (
    tool_call_accuracy,
    tool_call_args,
    tool_call_count,
    tool_call_order,
    tool_call_output,
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
}
