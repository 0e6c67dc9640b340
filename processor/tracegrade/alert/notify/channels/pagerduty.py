"""Incidents to PagerDuty, by its Events API v2.

Source: PagerDuty's documentation of that API.
"""

from typing import Any

import orjson

from tracegrade.alert.notify.links import Links
from tracegrade.alert.notify.message import details, rfc3339
from tracegrade.alert.notify.posting import Poster
from tracegrade.alert.notify.settings import PagerDutySettings
from tracegrade.alert.wording import headline
from tracegrade.store.incidents import Incident

_SEVERITIES = {"critical": "critical", "high": "error", "medium": "warning", "low": "warning", "info": "info"}
_MAX_SUMMARY = 1024


class PagerDuty:
    """Posts an event when an incident begins, and when it is over."""

    resend_s: float | None = None
    records = False

    def __init__(self, name: str, settings: PagerDutySettings, links: Links) -> None:
        self.name = name
        self._settings = settings
        self._links = links
        self._poster = Poster(settings.url, settings.timeout)

    def send(self, incident: Incident, now_ns: int) -> str | None:
        """Post `incident`; None when it was taken, else why not. Blocks. PagerDuty knows it again by its id."""
        return self._poster.post(orjson.dumps(self._event(incident)), {})

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()

    def _event(self, incident: Incident) -> dict[str, Any]:
        page, lead = self._links.incident(incident.id), incident.clearest
        return {
            "routing_key": self._settings.routing_key.get_secret_value(),
            "event_action": "resolve" if incident.state == "resolved" else "trigger",
            "dedup_key": incident.id,
            "client": "TraceGrade",
            **({"client_url": page} if page else {}),
            "links": [
                {"href": self._links.trace(trace_id), "text": f"trace {trace_id}"}
                for trace_id in lead.facts.worst
                if self._links.trace_url
            ],
            "payload": {
                "summary": headline(incident)[:_MAX_SUMMARY],
                "source": lead.service or "tracegrade",
                "severity": _SEVERITIES[incident.level],
                "timestamp": rfc3339(incident.starts_ns),
                "component": lead.agent or lead.service,
                "group": lead.rule_id,
                "class": lead.kind,
                "custom_details": {**incident.labels, "details": details(incident, self._links)},
            },
        }
