"""Calls and handoffs as expressions see them: `variables.CALL` and `variables.HANDOFF`."""

from collections.abc import Iterable, Iterator, Sequence

from tracegrade.model.handoff import Handoff
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import MASK, hashed_apart
from tracegrade.model.tool_call import CallPart, ToolCall

_PARTS: tuple[CallPart, ...] = ("arguments", "output")


def calls_as_seen(calls: Sequence[ToolCall], *, with_values: bool, redacted: bool = False) -> list[JsonValue]:
    """The members of each call; `with_values`: also what it was given and returned, as far as that can be read.

    `redacted`: something of their trace was redacted by us, so that a part that is not there may have been dropped.
    """
    first_ns = _first_ns(calls)
    members = [_members(call, first_ns) for call in calls]
    for each, call in zip(members, calls, strict=True) if with_values else ():
        for part in _PARTS:
            if call.lack_of(part, in_part=redacted) is None:
                each[part] = call.arguments if part == "arguments" else call.output
            elif redacted:
                each[part] = MASK
    for each, call in zip(members, calls, strict=True) if redacted else ():
        if call.failure_hidden:
            each["failed"] = each["error"] = MASK
    for place in _of_unknown_attempt(calls) if redacted else ():
        members[place]["attempt"] = MASK
    return [*members]


def _of_unknown_attempt(calls: Sequence[ToolCall]) -> Iterator[int]:
    """The calls of which nobody knows whether they are attempts at one: something of their arguments was redacted."""
    places: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        places.setdefault(call.name, []).append(place)
    for same in places.values():
        if len(same) < 2:
            continue
        if any(calls[place].arguments_status in ("redacted", "absent", "elsewhere") for place in same):
            yield from same
        else:
            yield from (same[number] for number in sorted(hashed_apart([calls[place].arguments for place in same])))


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


def _members(call: ToolCall, first_ns: int) -> dict[str, JsonValue]:
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
