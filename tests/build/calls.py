"""Tool calls as extraction gives them, and what evaluators say of them."""

from typing import Any

from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall, ToolError


def call(name: str, args: Any = None, *, failed: bool = False, **fields: Any) -> ToolCall:
    """A tool call: its name, its arguments, and any other field. Arguments and outputs that are given can be read."""
    values: dict[str, Any] = {
        "name": name,
        "raw_name": name,
        "call_id": None,
        "arguments": args,
        "arguments_status": "absent" if args is None else "ok",
        "output": None,
        "output_status": "ok" if fields.get("output") is not None else "absent",
        "error": ToolError("timeout", "") if failed else None,
        "start_ns": 0,
        "end_ns": 0,
        "span_id": "00000000000000aa",
        "agent": "",
        "agent_span_id": "",
    }
    return ToolCall(**{**values, **fields})


def calls(*made: Any) -> list[ToolCall]:
    """Tool calls, each given as a name, as (name, arguments) or as a call."""
    return [one if isinstance(one, ToolCall) else call(one) if isinstance(one, str) else call(*one) for one in made]


def score(evaluator: str, criteria: Any, made: list[Any], **settings: Any) -> Score:
    """What an evaluator says of calls that are given by hand, as `calls` takes them."""
    found = EVALUATORS[evaluator]
    return found.evaluate(
        Evidence(calls(*made), as_given=True),
        None if criteria is None else found.read_criteria(criteria),
        found.read_settings(settings),
    )
