"""Calls whose arguments or output were redacted before they came here, or by us at the door, say so by their status.

A hash is none of it: equal values have equal hashes, so that it can be judged like any other text.
"""

from collections.abc import Iterable

from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

_MARK = "[redacted"


def say_redacted(calls: Iterable[ToolCall]) -> None:
    """Set the status of what holds a mask, or a member that says how many are gone; the rest of it stays as it is."""
    for call in calls:
        if call.arguments_status not in ("absent", "redacted") and is_redacted(call.arguments):
            call.arguments_status = "redacted"
        if call.output_status not in ("absent", "redacted") and is_redacted(call.output):
            call.output_status = "redacted"


def is_redacted(value: JsonValue) -> bool:
    """Whether `value` holds a mask."""
    if isinstance(value, str):
        return _MARK in value
    if isinstance(value, dict):
        return any(_MARK in key or is_redacted(member) for key, member in value.items())
    return isinstance(value, list) and any(map(is_redacted, value))
