"""Results without the values of the trace: names, paths, ids, times and scores stay.

Values are the arguments and outputs of calls, what errors quote, what evaluators found and expected, and the attributes
of the resource that do not describe the sending program. The kept spans hold all values, so none of them stay.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tracegrade.codec.results import new_result, with_backfilled
from tracegrade.display import error_type, explanation
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.field_schema import own_fields
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace_result import VALUES_GONE, TraceResult, TraceSummary

HIDDEN = "[hidden]"
"""Stands for every value that is not shown, or is no longer there."""

_VALUES_OF_EVALUATIONS = [field.path for field in own_fields(Evaluation) if field.spec.is_value]

# Attributes of the resource that begin like this describe the sending program.
_OF_PROGRAM = ("service.", "deployment.", "telemetry.")


def result_without_values(result: TraceResult) -> TraceResult:
    """`result` as it is stored when its values are deleted: packed again, without spans."""
    made = new_result(
        replace(summary_without_values(result.trace), prompt=None),
        VALUES_GONE,
        [call_without_values(call) for call in result.tool_calls],
        [decision_without_values(decision) for decision in result.decisions],
    )
    backfilled = [decision_without_values(decision) for decision in result.backfilled]
    if not backfilled:
        return made
    packed = with_backfilled(made.packed, {decision.pair.rule_id for decision in backfilled}, backfilled)
    return replace(made, packed=packed, backfilled=backfilled)


def hidden(value: JsonValue) -> JsonValue:
    """A JSON value with its keys, and the number of items of its lists, but without what stands there."""
    if isinstance(value, dict):
        return {key: hidden(item) for key, item in value.items()}
    if isinstance(value, list):
        return [hidden(item) for item in value]
    return None if value is None else HIDDEN


def hidden_text(text: str) -> str:
    """Replace the text, keeping only whether it was empty."""
    return text and HIDDEN


def resource_without_values(attributes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The attributes of a resource."""
    return {key: value if key.startswith(_OF_PROGRAM) else hidden(value) for key, value in attributes.items()}


def error_without_values(error: ToolError) -> ToolError:
    """The error's type alone."""
    return replace(error, message=hidden_text(error.message))


def call_without_values(call: ToolCall) -> ToolCall:
    """The call with the keys of its arguments and output."""
    error = None if call.error is None else error_without_values(call.error)
    return replace(call, arguments=hidden(call.arguments), output=hidden(call.output), error=error)


def evaluation_without_values(evaluation: Evaluation) -> Evaluation:
    """The score, and the explanation, which names paths; of an evaluator that is not ours nobody knows what it says."""
    reason, said = evaluation.reason, explanation(evaluation, False)
    if evaluation.outcome == "error":
        reason = error_type(evaluation)
    elif not _is_ours(evaluation):
        reason, said = hidden_text(reason), hidden_text(said)
    gone = {name: _empty(getattr(evaluation, name)) for name in _VALUES_OF_EVALUATIONS}
    return replace(evaluation, reason=reason, explanation=said, **gone)


def _empty(value: Any) -> Any:
    """An empty value of the same type."""
    return None if value is None else type(value)()


def decision_without_values(decision: Decision) -> Decision:
    """The decision with its evaluations."""
    reason = decision.reason
    if decision.kind == "error":
        reason = reason.partition(":")[0]
    elif not all(map(_is_ours, decision.evaluations)):
        reason = hidden_text(reason)
    evaluations = [evaluation_without_values(evaluation) for evaluation in decision.evaluations]
    return replace(decision, reason=reason, evaluations=evaluations)


def _is_ours(evaluation: Evaluation) -> bool:
    from tracegrade.evaluate.registry import EVALUATORS  # seldom needed, and it loads pydantic

    return evaluation.evaluator in EVALUATORS


def summary_without_values(trace: TraceSummary) -> TraceSummary:
    """The trace as a whole."""
    return replace(trace, resource=resource_without_values(trace.resource), prompt=trace.prompt and HIDDEN)
