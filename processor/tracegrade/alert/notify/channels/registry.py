"""Every kind of alert channel, by its name in the settings."""

from collections.abc import Callable
from typing import Any, Protocol

from tracegrade.alert.notify.channels.alertmanager import Alertmanager
from tracegrade.alert.notify.channels.apprise import Apprise
from tracegrade.alert.notify.channels.email import Email
from tracegrade.alert.notify.channels.pagerduty import PagerDuty
from tracegrade.alert.notify.channels.slack import Slack
from tracegrade.alert.notify.channels.webhook import Webhook
from tracegrade.alert.notify.links import Links
from tracegrade.alert.notify.settings import NotificationSettings
from tracegrade.store.incidents import Incident


class Channel(Protocol):
    """One place that notifications are sent to.

    ``resend_s``: an incident that still fires is sent again after this many seconds, regardless of the settings; None:
    the settings decide. ``records``: the channel only keeps a record, so it is notified of everything, once,
    regardless of routes and silences.
    """

    name: str
    resend_s: float | None
    records: bool

    def send(self, incident: Incident, now_ns: int) -> str | None:
        """Send `incident`. Returns None when it was taken, else why not. May block."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


CHANNELS: dict[str, Callable[[str, Any, Links], Channel]] = {
    "webhook": Webhook,
    "alertmanager": Alertmanager,
    "slack": Slack,
    "pagerduty": PagerDuty,
    "email": Email,
    "apprise": Apprise,
}


def channels(settings: NotificationSettings) -> list[Channel]:
    """The channels that the settings name, ready to send."""
    return [
        CHANNELS[channel.kind](name, getattr(channel, channel.kind), settings.links)
        for name, channel in settings.channels.items()
    ]
