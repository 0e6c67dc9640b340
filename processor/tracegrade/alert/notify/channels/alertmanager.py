"""Incidents to Alertmanager, by its API v2. It groups, silences and routes by its own settings.

Source: the OpenAPI document of prometheus/alertmanager (api/v2/openapi.yaml), and its rule for clients: send firing
alerts again, since it forgets alerts that are not sent again.
"""

import orjson

from tracegrade.alert.notify.links import Links
from tracegrade.alert.notify.message import annotations, rfc3339
from tracegrade.alert.notify.posting import Poster
from tracegrade.alert.notify.settings import AlertmanagerSettings
from tracegrade.store.incidents import Incident

_NS = 1_000_000_000
# As Prometheus does: four times the interval, so that a few lost requests do not end an alert.
_FORGOTTEN_AFTER = 4


class Alertmanager:
    """Posts each incident as an alert; what still fires is posted again each minute."""

    resend_s: float | None = 60.0
    records = False

    def __init__(self, name: str, settings: AlertmanagerSettings, links: Links) -> None:
        self.name = name
        self._links = links
        self._headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        self._poster = Poster(settings.url.rstrip("/") + "/api/v2/alerts", settings.timeout)

    def send(self, incident: Incident, now_ns: int) -> str | None:
        """Post `incident`; None when it was taken, else why not. Blocks."""
        forgotten_ns = now_ns + int(_FORGOTTEN_AFTER * (self.resend_s or 0) * _NS)
        page = self._links.incident(incident.id)
        alert = {
            "labels": {name: value for name, value in incident.labels.items() if value},
            "annotations": annotations(incident, self._links),
            "startsAt": rfc3339(incident.starts_ns),
            "endsAt": rfc3339(forgotten_ns if incident.ends_ns is None else incident.ends_ns),
            **({"generatorURL": page} if page else {}),
        }
        return self._poster.post(orjson.dumps([alert]), self._headers)

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()
