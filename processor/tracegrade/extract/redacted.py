"""Calls whose arguments or output were redacted before they came here, or by us at the door, say so by their status.

A hash is none of it: equal values have equal hashes, so that it can be judged like any other text.
"""

from collections.abc import Iterable

from tracegrade.model.stand_ins import holds_mask
from tracegrade.model.tool_call import ToolCall


def say_redacted(calls: Iterable[ToolCall]) -> None:
    """Set the status of what holds a mask, or a member that says how many are gone; the rest of it stays as it is."""
    for call in calls:
        if call.arguments_status not in ("absent", "redacted") and holds_mask(call.arguments):
            call.arguments_status = "redacted"
        if call.output_status not in ("absent", "redacted") and holds_mask(call.output):
            call.output_status = "redacted"
