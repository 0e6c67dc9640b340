"""Alerts to PagerDuty, by its Events API v2: one incident for each firing, resolved when it is over.

Source: PagerDuty's documentation of that API.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from tracegrade.alert.links import Links
from tracegrade.alert.message import lines, rfc3339, summary
from tracegrade.alert.posting import Poster
from tracegrade.alert.settings import PagerDutySettings
from tracegrade.store.alerts import StoredAlert

_SEVERITIES = {"critical": "critical", "high": "error", "medium": "warning", "low": "warning", "info": "info"}
_MAX_SUMMARY = 1024


class PagerDuty:
    """Posts an event for each alert."""

    resend_s: float | None = None
    records = False

    def __init__(self, name: str, settings: PagerDutySettings, links: Links) -> None:
        self.name = name
        self._settings = settings
        self._links = links
        self._poster = Poster(settings.timeout)

    def send(self, group: Mapping[str, str], alerts: Sequence[StoredAlert], now_ns: int) -> str | None:
        """Post `alerts`, one by one; None when all were taken, else why not. Blocks.

        Alerts before one that was not taken are sent again with it: PagerDuty recognises them by their key.
        """
        for alert in alerts:
            if (refused := self._poster.post(self._settings.url, orjson.dumps(self._event(alert)), {})) is not None:
                return refused
        return None

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()

    def _event(self, alert: StoredAlert) -> dict[str, Any]:
        return {
            "routing_key": self._settings.routing_key.get_secret_value(),
            "event_action": "resolve" if alert.state == "resolved" else "trigger",
            "dedup_key": alert.key,
            "client": "TraceGrade",
            **({"client_url": self._links.page} if self._links.page else {}),
            "links": [
                {"href": self._links.trace(trace_id), "text": f"trace {trace_id}"}
                for trace_id in alert.facts.worst
                if self._links.trace_url
            ],
            "payload": {
                "summary": summary(alert)[:_MAX_SUMMARY],
                "source": alert.service or "tracegrade",
                "severity": _SEVERITIES[alert.level],
                "timestamp": rfc3339(alert.starts_ns),
                "component": alert.agent or alert.service,
                "group": alert.rule_id,
                "class": alert.kind,
                "custom_details": {**alert.labels, "details": lines(alert, self._links)},
            },
        }
