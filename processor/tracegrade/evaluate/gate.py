"""Can these calls be judged at all? (promise 6)

Evaluators score what they are given: absent arguments are ``{}``, an absent output is ``""``. For production traces
that would turn "was not recorded" into 0.0, so this comes first: a call that the evaluator would pair by name and that
lacks what it reads makes the evaluation not_evaluable. Calls of other names do not matter, nor do expected calls that
were never made: a trace without calls is judged.

Arguments are lacking when absent, text (no object), truncated or redacted; outputs when absent, truncated or redacted.
A failed call has no output: its error is its result, and that is known. A text is a good output.
"""

from collections.abc import Sequence
from typing import Any

from tracegrade.evaluate.calls import listed
from tracegrade.evaluate.evaluator import Evaluator, ParameterModel
from tracegrade.model.tool_call import ToolCall

_LACKING_ARGUMENTS = {
    "absent": "were not recorded",
    "text": "are not an object",
    "truncated": "were cut off by the sender",
    "redacted": "were masked by the sender",
}
_LACKING_OUTPUT = {
    "absent": "was not recorded",
    "truncated": "was cut off by the sender",
    "redacted": "was masked by the sender",
}


def gate(
    evaluator: Evaluator[Any, Any], criteria: ParameterModel | None, settings: ParameterModel, calls: Sequence[ToolCall]
) -> str | None:
    """Why `calls` cannot be judged by `evaluator`, None when they can.

    Returns:
        One sentence that names the first call which lacks something, and its span; no values.

    Raises:
        EvaluatorError: ``no_criteria``, as `Evaluator.evaluate`.
    """
    if not evaluator.reads:
        return None
    names = evaluator.compared_names(evaluator.criteria_in_force(criteria, settings))
    for call in calls:
        if call.name in names and (lack := _lack(evaluator, call)) is not None:
            return f"{lack} ({listed([call.name])}, span {call.span_id})"
    return None


def _lack(evaluator: Evaluator[Any, Any], call: ToolCall) -> str | None:
    if "arguments" in evaluator.reads and (why := _LACKING_ARGUMENTS.get(call.arguments_status)):
        return f"the arguments of a call {why}"
    if "output" in evaluator.reads and (why := _LACKING_OUTPUT.get(call.output_status)):
        return None if call.failed and call.output_status == "absent" else f"the output of a call {why}"
    return None
