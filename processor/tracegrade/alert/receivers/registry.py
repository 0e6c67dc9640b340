"""Every kind of receiver, by the word for it in the settings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tracegrade.alert.links import Links
from tracegrade.alert.receivers.alertmanager import Alertmanager
from tracegrade.alert.receivers.apprise import Apprise
from tracegrade.alert.receivers.email import Email
from tracegrade.alert.receivers.pagerduty import PagerDuty
from tracegrade.alert.receivers.slack import Slack
from tracegrade.alert.receivers.webhook import Webhook
from tracegrade.alert.settings import AlertsSettings
from tracegrade.store.alerts import StoredAlert


class Receiver(Protocol):
    """One place that alerts are sent to.

    ``resend_s``: what fires is sent again so often, whatever the settings say. ``records``: it keeps a record rather
    than to call people, so it is told of everything, once, whatever routes, silences and maintenance say.
    """

    name: str
    resend_s: float | None
    records: bool

    def send(self, group: Mapping[str, str], alerts: Sequence[StoredAlert], now_ns: int) -> str | None:
        """Tell it of `alerts`, alike in the labels `group`; None when it took them, else why not. May block."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


RECEIVERS: dict[str, Callable[[str, Any, Links], Receiver]] = {
    "webhook": Webhook,
    "alertmanager": Alertmanager,
    "slack": Slack,
    "pagerduty": PagerDuty,
    "email": Email,
    "apprise": Apprise,
}


def receivers(settings: AlertsSettings) -> list[Receiver]:
    """The receivers that the settings name."""
    return [
        RECEIVERS[receiver.kind](name, getattr(receiver, receiver.kind), settings.links)
        for name, receiver in settings.receivers.items()
    ]
