"""Alerts to a webhook, in the JSON form (version 4) that Alertmanager posts and many services take.

Source: the webhook_config section of the Prometheus alerting documentation.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import requests

from tracegrade.alert.settings import WebhookSettings
from tracegrade.store.alerts import StoredAlert
from tracegrade.yaml_file import duration_text

# Alertmanager's word for "not yet".
_NO_TIME = "0001-01-01T00:00:00Z"


class Webhook:
    """Posts the alerts of one rule at a time."""

    def __init__(self, name: str, settings: WebhookSettings, external_url: str) -> None:
        self.name = name
        self._settings = settings
        self._external_url = external_url
        self._headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        self._session = requests.Session()

    def send(self, rule_id: str, alerts: Sequence[StoredAlert]) -> str | None:
        """Post `alerts`, all of rule `rule_id`; None when they were taken, else why not. Blocks."""
        try:
            response = self._session.post(
                self._settings.url,
                json=payload(self.name, rule_id, alerts, self._external_url),
                headers=self._headers,
                timeout=self._settings.timeout,
                allow_redirects=False,
            )
        except requests.RequestException as error:
            return f"cannot be reached: {type(error).__name__}"
        return None if response.ok and not response.is_redirect else f"answered {response.status_code}"

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


def payload(receiver: str, rule_id: str, alerts: Sequence[StoredAlert], external_url: str) -> dict[str, Any]:
    """One notification: the alerts of one rule, firing when any of them fires."""
    items = [_alert(alert, external_url) for alert in alerts]
    return {
        "version": "4",
        "groupKey": f'{{}}:{{rule="{rule_id}"}}',
        "truncatedAlerts": 0,
        "status": "firing" if any(alert.state == "firing" for alert in alerts) else "resolved",
        "receiver": receiver,
        "groupLabels": {"rule": rule_id},
        "commonLabels": _common([item["labels"] for item in items]),
        "commonAnnotations": _common([item["annotations"] for item in items]),
        "externalURL": external_url,
        "alerts": items,
    }


def _alert(alert: StoredAlert, external_url: str) -> dict[str, Any]:
    what = "pass rate" if alert.of == "pass_rate" else f"pass rate of {alert.of}"
    side = "below" if alert.state == "firing" else "not below"
    summary = (
        f"{alert.rule_id} at {alert.service or 'unnamed service'}: {what} {alert.value:.1%} over "
        f"{duration_text(alert.over_s)} is {side} {alert.below:.1%} ({alert.samples} judged)"
    )
    return {
        "status": alert.state,
        "labels": {
            "alertname": alert.rule_id,
            "rule": alert.rule_id,
            "service": alert.service,
            "tenant": alert.tenant,
            "severity": alert.level,
            "of": alert.of,
        },
        "annotations": {"summary": summary, **({"description": alert.title} if alert.title else {})},
        "startsAt": _time(alert.starts_ns),
        "endsAt": _time(alert.ends_ns) if alert.ends_ns is not None else _NO_TIME,
        "generatorURL": external_url,
        "fingerprint": alert.fingerprint,
    }


def _common(maps: Sequence[dict[str, str]]) -> dict[str, str]:
    """The pairs that all of `maps` have."""
    return {key: value for key, value in maps[0].items() if all(other.get(key) == value for other in maps)}


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
