"""Alerts to a webhook, in the JSON form (version 4) that Alertmanager posts and many services take.

Sources: the webhook_config section of the Prometheus alerting documentation; the Standard Webhooks specification for
the signature.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from hmac import digest
from typing import Any

import orjson

from tracegrade.alert.links import Links
from tracegrade.alert.message import annotations, rfc3339, status
from tracegrade.alert.posting import Poster
from tracegrade.alert.settings import WebhookSettings
from tracegrade.store.alerts import StoredAlert

# Alertmanager's word for "not yet".
_NO_TIME = "0001-01-01T00:00:00Z"


class Webhook:
    """Posts one request for each group of alerts."""

    resend_s: float | None = None
    records = False

    def __init__(self, name: str, settings: WebhookSettings, links: Links) -> None:
        self.name = name
        self._settings = settings
        self._links = links
        self._headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        self._poster = Poster(settings.timeout)

    def send(self, group: Mapping[str, str], alerts: Sequence[StoredAlert], now_ns: int) -> str | None:
        """Post `alerts`, alike in the labels `group`; None when they were taken, else why not. Blocks."""
        body = orjson.dumps(payload(self.name, group, alerts, self._links))
        headers = dict(self._headers)
        if self._settings.secret is not None:
            headers |= signature(self._settings.secret.get_secret_value(), alerts[0].key, body, now_ns)
        return self._poster.post(self._settings.url.get_secret_value(), body, headers)

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


def payload(channel: str, group: Mapping[str, str], alerts: Sequence[StoredAlert], links: Links) -> dict[str, Any]:
    """One notification: a group of alerts, firing when any of them fires."""
    items = [_alert(alert, links) for alert in alerts]
    labels = ", ".join(f'{name}="{value}"' for name, value in group.items())
    return {
        "version": "4",
        "groupKey": f"{{}}:{{{labels}}}",
        "truncatedAlerts": 0,
        "status": status(alerts),
        "receiver": channel,  # as Alertmanager calls it
        "groupLabels": dict(group),
        "commonLabels": _common([item["labels"] for item in items]),
        "commonAnnotations": _common([item["annotations"] for item in items]),
        "externalURL": links.page,
        "alerts": items,
    }


def _alert(alert: StoredAlert, links: Links) -> dict[str, Any]:
    return {
        "status": alert.state,
        "labels": alert.labels,
        "annotations": annotations(alert, links),
        "startsAt": rfc3339(alert.starts_ns),
        "endsAt": rfc3339(alert.ends_ns) if alert.ends_ns is not None else _NO_TIME,
        "generatorURL": links.page,
        "fingerprint": alert.fingerprint,
    }


def _common(maps: Sequence[dict[str, str]]) -> dict[str, str]:
    """The items that are in all of `maps`."""
    return {key: value for key, value in maps[0].items() if all(other.get(key) == value for other in maps)}
