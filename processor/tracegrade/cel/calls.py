"""Calls as expressions see them: `types.CALL`."""

from collections.abc import Iterable, Sequence

from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

_UNREADABLE_ARGUMENTS = frozenset({"absent", "text", "truncated", "redacted"})
_UNREADABLE_OUTPUT = frozenset({"absent", "truncated", "redacted"})


def calls_as_seen(calls: Sequence[ToolCall], *, with_values: bool) -> list[JsonValue]:
    """The members of each call; `with_values`: also what it was given and returned, as far as that can be read."""
    first_ns = min((call.start_ns for call in calls if call.start_ns), default=0)
    return [_members(call, first_ns, with_values) for call in calls]


def _members(call: ToolCall, first_ns: int, with_values: bool) -> JsonValue:
    members: dict[str, JsonValue] = {
        "name": call.name,
        "failed": call.failed,
        "error": (call.error.message or call.error.type) if call.error is not None else "",
        "attempt": call.attempt,
        "agent": call.agent,
    }
    if call.start_ns:
        members["start_ms"] = (call.start_ns - first_ns) / 1e6
        if call.end_ns >= call.start_ns:
            members["duration_ms"] = (call.end_ns - call.start_ns) / 1e6
    if with_values:
        if call.arguments_status not in _UNREADABLE_ARGUMENTS:
            members["arguments"] = call.arguments
        if call.output_status not in _UNREADABLE_OUTPUT:
            members["output"] = call.output
    return members


def longest_in(values: Iterable[JsonValue]) -> int:
    """The number of items of the longest list or object in `values`, at any depth; 0 without one."""
    longest, left = 0, [value for value in values if isinstance(value, list | dict)]
    while left:
        value = left.pop()
        longest = max(longest, len(value))
        inside = value.values() if isinstance(value, dict) else value
        left += [item for item in inside if isinstance(item, list | dict)]
    return longest
