"""Calls and handoffs as expressions see them: `types.CALL` and `types.HANDOFF`."""

from collections.abc import Iterable, Sequence

from tracegrade.model.handoff import Handoff
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

_UNREADABLE_ARGUMENTS = frozenset({"absent", "text", "truncated", "redacted"})
_UNREADABLE_OUTPUT = frozenset({"absent", "truncated", "redacted"})


def calls_as_seen(calls: Sequence[ToolCall], *, with_values: bool) -> list[JsonValue]:
    """The members of each call; `with_values`: also what it was given and returned, as far as that can be read."""
    first_ns = _first_ns(calls)
    return [_members(call, first_ns, with_values) for call in calls]


def handoffs_as_seen(handoffs: Sequence[Handoff], calls: Sequence[ToolCall]) -> list[JsonValue]:
    """The members of each handoff; times are counted from the first of `calls`, without any from the first handoff."""
    first_ns = _first_ns(calls) or _first_ns(handoffs)
    return [_members_of_handoff(each, first_ns) for each in handoffs]


def _first_ns(items: Iterable[ToolCall | Handoff]) -> int:
    return min((item.start_ns for item in items if item.start_ns), default=0)


def _members_of_handoff(handoff: Handoff, first_ns: int) -> JsonValue:
    members: dict[str, JsonValue] = {
        "from": handoff.from_agent,
        "seen_in": handoff.seen_in,
        "calls_before": handoff.calls_before,
    }
    if handoff.to_agent:
        members["to"] = handoff.to_agent
    if handoff.start_ns:
        members["start_ms"] = (handoff.start_ns - first_ns) / 1e6
    return members


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
