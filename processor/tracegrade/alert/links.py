"""Where people go from a notification."""

from dataclasses import dataclass

TRACE_ID = "{trace_id}"
"""Stands for a trace's id (32 hex digits) in the address of traces."""


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses; "" where there is none. ``trace_url`` has TRACE_ID in it."""

    page: str = ""
    trace_url: str = ""

    def trace(self, trace_id: str) -> str:
        """Where the trace is; its id alone where nobody knows."""
        return self.trace_url.replace(TRACE_ID, trace_id) or trace_id


NO_LINKS = Links()
