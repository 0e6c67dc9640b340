"""What evaluators read of the calls made: their names, where each stands, their arguments.

Functions and classes of an `Evidence` alone are for `Evidence.once`.
"""

from collections.abc import Sequence

from tracegrade.evaluate.evidence import Evidence
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.tri import Unknown

REMEMBERED = 1024  # scores that follow from the names of calls alone, of all rules together, by evaluator
# A longer sequence is judged again each time, so that the memory stays within some megabytes.
_MAX_CALLS_REMEMBERED = 64
_MAX_CHARACTERS_REMEMBERED = 2048


def names(evidence: Evidence) -> list[str]:
    """The names of the calls."""
    return [call.name for call in evidence.calls]


class NamesMade:
    """The names of the calls; ``key`` is them as what scores are remembered by, None when they are many or long."""

    __slots__ = ("key", "names")

    def __init__(self, evidence: Evidence) -> None:
        self.names = evidence.once(names)
        self.key: tuple[str, ...] | None = None
        if len(self.names) <= _MAX_CALLS_REMEMBERED and sum(map(len, self.names)) <= _MAX_CHARACTERS_REMEMBERED:
            self.key = tuple(self.names)


def positions_by_name(evidence: Evidence) -> dict[str, list[int]]:
    """Where the calls of each name stand, in order."""
    return positions_of(evidence.once(names))


def positions_of(names: Sequence[str]) -> dict[str, list[int]]:
    """Where each name stands, in order."""
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        if name in positions:
            positions[name].append(position)
        else:
            positions[name] = [position]
    return positions


def arguments(evidence: Evidence) -> list[dict[str, JsonValue]]:
    """The arguments of each call by name; none when they are absent or no object."""
    return [call.arguments if isinstance(call.arguments, dict) else {} for call in evidence.calls]


def unread_call(evidence: Evidence, no_later_than: ToolCall | None = None) -> Unknown | None:
    """Why more calls may have been made than are known: work of the agent could not be read.

    A call that is judged by itself is known, whatever else the run called.

    Args:
        evidence: the calls.
        no_later_than: only what began no later than this call matters.

    Returns:
        The first such span, with its sentence; None without one.
    """
    context = evidence.trace_context
    if context is None or (evidence.run is not evidence and evidence.after is None):
        return None
    work = context.unread_before(no_later_than)
    return None if work is None else Unknown("unread", span_id=work.span_id, said=work.sentence)


def may_hold_further(evidence: Evidence) -> bool:
    """Whether more calls may have been made than are known; by ``evidence.once``, since every evaluator asks."""
    return unread_call(evidence) is not None
