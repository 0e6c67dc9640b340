"""The addresses to which a notification links."""

from dataclasses import dataclass

TRACE_ID = "{trace_id}"
"""Stands for a trace's id (32 hex digits) in the address of traces."""


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses; "" where there is none. ``trace_url`` has TRACE_ID in it."""

    page: str = ""
    trace_url: str = ""

    def incident(self, incident_id: str) -> str:
        """The address of the page of an incident; "" where there is none."""
        return f"{self.page.rstrip('/')}/incidents/{incident_id}" if self.page else ""

    def trace(self, trace_id: str) -> str:
        """The address of the trace; only its id where no address is known."""
        return self.trace_url.replace(TRACE_ID, trace_id) or trace_id


NO_LINKS = Links()
