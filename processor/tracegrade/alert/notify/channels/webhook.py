"""Incidents to a webhook, in the JSON form (version 4) that Alertmanager posts and many services take.

Sources: the webhook_config section of the Prometheus alerting documentation; the Standard Webhooks specification for
the signature.
"""

from base64 import b64encode
from hashlib import sha256
from hmac import digest
from typing import Any

import orjson

from tracegrade.alert.notify.links import Links
from tracegrade.alert.notify.message import annotations, rfc3339
from tracegrade.alert.notify.posting import Poster
from tracegrade.alert.notify.settings import WebhookSettings
from tracegrade.alert.wording import summary
from tracegrade.store.incidents import Incident

# Alertmanager's word for "not yet".
_NO_TIME = "0001-01-01T00:00:00Z"


class Webhook:
    """Posts one request for each incident."""

    resend_s: float | None = None
    records = False

    def __init__(self, name: str, settings: WebhookSettings, links: Links) -> None:
        self.name = name
        self._settings = settings
        self._links = links
        self._headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        self._poster = Poster(settings.url.get_secret_value(), settings.timeout)

    def send(self, incident: Incident, now_ns: int) -> str | None:
        """Post `incident`; None when it was taken, else why not. Blocks."""
        body = orjson.dumps(payload(self.name, incident, self._links))
        headers = dict(self._headers)
        if self._settings.secret is not None:
            headers |= signature(self._settings.secret.get_secret_value(), incident.id, body, now_ns)
        return self._poster.post(body, headers)

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()


def signature(secret: str, key: str, body: bytes, now_ns: int) -> dict[str, str]:
    """The headers with which the endpoint, which knows `secret`, can verify who sent `body`, and when."""
    time_s = str(now_ns // 1_000_000_000)
    signed = digest(secret.encode(), f"{key}.{time_s}.".encode() + body, sha256)
    return {
        "webhook-id": key,
        "webhook-timestamp": time_s,
        "webhook-signature": f"v1,{b64encode(signed).decode()}",
    }


def payload(channel: str, incident: Incident, links: Links) -> dict[str, Any]:
    """One notification: the incident as one alert of Alertmanager's form, and, under ``incident``, its members."""
    said, page = annotations(incident, links), links.incident(incident.id)
    alert = {
        "status": incident.state,
        "labels": incident.labels,
        "annotations": said,
        "startsAt": rfc3339(incident.starts_ns),
        "endsAt": rfc3339(incident.ends_ns) if incident.ends_ns is not None else _NO_TIME,
        "generatorURL": page,
        "fingerprint": incident.lead.fingerprint,
    }
    group = {"incident": incident.id}
    return {
        "version": "4",
        "groupKey": f'{{}}:{{incident="{incident.id}"}}',
        "truncatedAlerts": 0,
        "status": incident.state,
        "receiver": channel,  # as Alertmanager calls it
        "groupLabels": group,
        "commonLabels": incident.labels,
        "commonAnnotations": said,
        "externalURL": links.page,
        "alerts": [alert],
        "incident": {
            "id": incident.id,
            "members": [
                {"state": alert.state, "summary": summary(alert), "labels": alert.labels} for alert in incident.members
            ],
        },
    }
