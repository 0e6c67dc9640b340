"""The addresses to which a notification links."""

from dataclasses import dataclass
from urllib.parse import quote

TRACE_ID = "{trace_id}"
"""Stands for a trace's id (32 hex digits) in the address of traces."""


RULE = "{rule}"
"""Stands for a rule's id in the address of runbooks."""


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses; "" where there is none. ``trace_url`` has TRACE_ID in it, ``runbook_url`` may have RULE."""

    page: str = ""
    trace_url: str = ""
    runbook_url: str = ""

    def incident(self, incident_id: str) -> str:
        """The address of the page of an incident; "" where there is none."""
        return f"{self.page.rstrip('/')}/incidents/{incident_id}" if self.page else ""

    def trace(self, trace_id: str) -> str:
        """The address of the trace; only its id where no address is known."""
        return self.trace_url.replace(TRACE_ID, trace_id) or trace_id

    def runbook(self, rule_id: str) -> str:
        """The address of the runbook of a rule; "" where none is known."""
        return self.runbook_url.replace(RULE, quote(rule_id, safe=""))


NO_LINKS = Links()
