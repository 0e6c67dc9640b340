"""Alerts to Alertmanager, by its API v2. It groups, silences and routes by its own settings.

Source: the OpenAPI document of prometheus/alertmanager (api/v2/openapi.yaml), and its rule for clients: send firing
alerts again, since it forgets alerts that are not sent again.
"""

from collections.abc import Mapping, Sequence

import orjson

from tracegrade.alert.links import Links
from tracegrade.alert.message import annotations, rfc3339
from tracegrade.alert.posting import Poster
from tracegrade.alert.settings import AlertmanagerSettings
from tracegrade.store.alerts import StoredAlert

_NS = 1_000_000_000
# As Prometheus does: four times the interval, so that a few lost requests do not end an alert.
_FORGOTTEN_AFTER = 4


class Alertmanager:
    """Posts alerts; those that still fire are posted again each minute."""

    resend_s: float | None = 60.0
    records = False

    def __init__(self, name: str, settings: AlertmanagerSettings, links: Links) -> None:
        self.name = name
        self._url = settings.url.rstrip("/") + "/api/v2/alerts"
        self._links = links
        self._headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        self._poster = Poster(settings.timeout)

    def send(self, group: Mapping[str, str], alerts: Sequence[StoredAlert], now_ns: int) -> str | None:
        """Post `alerts`; None when they were taken, else why not. Blocks."""
        forgotten_ns = now_ns + int(_FORGOTTEN_AFTER * (self.resend_s or 0) * _NS)
        items = [
            {
                "labels": {name: value for name, value in alert.labels.items() if value},
                "annotations": annotations(alert, self._links),
                "startsAt": rfc3339(alert.starts_ns),
                "endsAt": rfc3339(forgotten_ns if alert.ends_ns is None else alert.ends_ns),
                **({"generatorURL": self._links.page} if self._links.page else {}),
            }
            for alert in alerts
        ]
        return self._poster.post(self._url, orjson.dumps(items), self._headers)

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()
