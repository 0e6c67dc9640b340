"""Notifications of incidents: which channel is notified of which, and when."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Engine

from tracegrade.alert.notify.channels.registry import Channel
from tracegrade.alert.notify.routes import routed
from tracegrade.alert.notify.settings import NotificationSettings
from tracegrade.alert.notify.silences import silence_of
from tracegrade.document.tenants import ForTenants
from tracegrade.store.alerts import Silence, stored_silences
from tracegrade.store.incidents import LEVELS, Incident, Notification, recent_incidents, save_incident
from tracegrade.store.open import reading
from tracegrade.telemetry.metrics import Telemetry

logger = logging.getLogger(__name__)

_NS = 1_000_000_000
# A channel that could not be reached is still notified of an incident that came and went meanwhile, but not of last
# week's.
_NOTIFY_WITHIN_NS = 3600 * _NS
# A channel that was notified of an incident is also notified of its end, however late.
_NOTIFY_END_WITHIN_NS = 7 * 86_400 * _NS
_MAX_BACKOFF_NS = 300 * _NS


class Notifier:
    """Notifies every channel of incidents at least once.

    A notification is noted in the store after the channel took it. After a crash in between it is sent again, with the
    same key.
    """

    def __init__(
        self,
        engine: Engine,
        channels: Sequence[Channel],
        telemetry: Telemetry,
        settings: NotificationSettings,
        every_s: float,
        for_tenants: Mapping[str, ForTenants],
    ) -> None:
        self._engine = engine
        self._channels = channels
        self._telemetry = telemetry
        self._settings = settings
        self._names = [channel.name for channel in channels]
        self._every_ns = int(every_s * _NS)
        self._for_tenants = for_tenants
        self._failures: dict[str, int] = defaultdict(int)  # in a row, by channel
        self._not_before_ns: dict[str, int] = {}  # by channel, after failures
        for name in self._names:
            for outcome in ("sent", "failed"):  # so that a first failure is a rise from 0
                telemetry.add("tracegrade.alerts.notifications", 0, receiver=name, outcome=outcome)

    def notify(self, now_ns: int) -> None:
        """Send what is due at `now_ns`, ns since 1970 UTC."""
        for channel in self._channels:
            if now_ns >= self._not_before_ns.get(channel.name, 0):
                self._notify(channel, now_ns)

    def close(self) -> None:
        """Close the channels."""
        for channel in self._channels:
            channel.close()

    def _notify(self, channel: Channel, now_ns: int) -> None:
        with reading(self._engine) as connection:
            recent = recent_incidents(connection, now_ns - _NOTIFY_END_WITHIN_NS)
            silences = stored_silences(connection, now_ns)
        place = self._for_tenants.get(channel.name)
        notified = [
            (incident.notified.get(channel.name, Notification()), incident)
            for incident in recent
            if place is None or place.is_for(incident.lead.tenant)  # its members have one tenant
        ]
        # One that the channel does not take must not keep it from the others.
        for last, incident in sorted(notified, key=lambda item: item[0].tries):
            if self._is_due(channel, incident, last, now_ns) and self._may_notify(
                channel, incident, last, silences, now_ns
            ):
                refused = _send(channel, incident, now_ns)
                self._note(channel, incident, refused, now_ns)
                if refused is not None:
                    return

    def _may_notify(
        self, channel: Channel, incident: Incident, last: Notification, silences: Sequence[Silence], now_ns: int
    ) -> bool:
        """Whether routes and silences let `channel` be notified of `incident` now."""
        if channel.records or (last.state == "firing" and incident.state == "resolved"):
            return True  # it was notified that the incident began, so it is notified of the end
        if channel.name not in routed(incident.members, self._settings.routes, self._names):
            return False
        return silence_of(incident, silences, now_ns) is None

    def _is_due(self, channel: Channel, incident: Incident, last: Notification, now_ns: int) -> bool:
        if last.state != incident.state:
            missed = incident.ends_ns is not None and incident.ends_ns < now_ns - _NOTIFY_WITHIN_NS
            return last.state == "firing" or not missed
        if incident.state != "firing" or channel.records:
            return False
        is_worse = last.level in LEVELS and LEVELS.index(incident.level) > LEVELS.index(last.level)
        if incident.acknowledged is not None and channel.resend_s is None:
            return is_worse
        return is_worse or now_ns - last.time_ns >= int((channel.resend_s or self._settings.repeat) * _NS)

    def _note(self, channel: Channel, incident: Incident, refused: str | None, now_ns: int) -> None:
        """Remember that `channel` took the notification, or why it did not."""
        outcome = "sent" if refused is None else "failed"
        self._telemetry.add("tracegrade.alerts.notifications", receiver=channel.name, outcome=outcome)
        if refused is None:
            self._failures[channel.name] = 0
        else:
            self._failures[channel.name] += 1
            delay_ns = min(self._every_ns << min(self._failures[channel.name] - 1, 10), _MAX_BACKOFF_NS)
            self._not_before_ns[channel.name] = now_ns + delay_ns
        last = incident.notified.get(channel.name, Notification()).after(incident, refused, now_ns)
        with self._engine.begin() as connection:
            save_incident(connection, replace(incident, notified={**incident.notified, channel.name: last}))


def _send(channel: Channel, incident: Incident, now_ns: int) -> str | None:
    try:
        return channel.send(incident, now_ns)
    except Exception as error:  # an error of a library with some text or setting must not end the judge
        logger.exception("channel %s failed", channel.name)
        return f"failed: {type(error).__name__}"
