"""Calls and handoffs as expressions see them: `variables.CALL` and `variables.HANDOFF`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

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


class Extent(NamedTuple):
    """How much an expression can read.

    There are so many ``calls``, and ``items`` in the longest list, which may be another. ``largest`` is the weight of
    the largest value that a loop may be over or in, ``total`` that of all: a value inside weighs 1, and so do
    `CHARACTERS` of a text.
    """

    calls: int
    items: int
    largest: int
    total: int


CHARACTERS = 330
"""That take as long to copy as one value does."""


def extent_of(calls: int, others: int, read: Iterable[Iterable[JsonValue]]) -> Extent:
    """The extent of so many calls, of other lists of so many items, and of what can be `read`, as of each call."""
    longest, largest, total = max(calls, others), 0, 0
    for values in read:
        weight, left = 0, [*values]
        while left:
            value = left.pop()
            weight += 1
            if isinstance(value, str):
                weight += len(value) // CHARACTERS
            elif isinstance(value, list | dict):
                longest = max(longest, len(value))
                left += value.values() if isinstance(value, dict) else value
        largest, total = max(largest, weight), total + weight
    return Extent(calls, longest, largest, total)


def values_of(calls: Iterable[ToolCall]) -> Iterator[tuple[JsonValue, JsonValue]]:
    """Arguments and output of each call."""
    return ((call.arguments, call.output) for call in calls)
