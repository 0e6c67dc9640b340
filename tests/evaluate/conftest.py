from collections.abc import Callable
from typing import Any

import pytest

from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.tool_call import ToolCall, ToolError


def made_call(name: str, args: Any = None, **fields: Any) -> ToolCall:
    values: dict[str, Any] = {
        "name": name,
        "raw_name": name,
        "call_id": None,
        "arguments": args,
        "arguments_status": "absent" if args is None else "ok",
        "output": None,
        "output_status": "ok" if fields.get("output") is not None else "absent",
        "error": None,
        "start_ns": 0,
        "end_ns": 0,
        "span_id": "00000000000000aa",
        "agent": "",
        "agent_span_id": "",
    }
    if fields.pop("failed", False):
        fields["error"] = ToolError("timeout", "")
    return ToolCall(**{**values, **fields})


@pytest.fixture
def call() -> Callable[..., ToolCall]:
    """A tool call: name, arguments, and any other field."""
    return made_call


@pytest.fixture
def score() -> Callable[..., Score]:
    """Judge calls, given as names or as (name, arguments) or as `ToolCall`s, with matchers on."""

    def read(made: Any) -> ToolCall:
        return made if isinstance(made, ToolCall) else made_call(made) if isinstance(made, str) else made_call(*made)

    def judge(evaluator: str, criteria: Any, calls: list[Any], **settings: Any) -> Score:
        found = EVALUATORS[evaluator]
        return found.evaluate(
            Evidence([read(made) for made in calls]),
            None if criteria is None else found.read_criteria(criteria),
            found.read_settings(settings),
        )

    return judge
