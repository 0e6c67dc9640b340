"""Alerts to the services that apprise knows; needs the extra tracegrade[notify]."""

from collections.abc import Mapping, Sequence

from tracegrade.alert.links import Links
from tracegrade.alert.message import status, subject, text
from tracegrade.alert.settings import AppriseSettings
from tracegrade.store.alerts import StoredAlert


class Apprise:
    """Sends a group of alerts to all addresses."""

    resend_s: float | None = None
    records = False

    def __init__(self, name: str, settings: AppriseSettings, links: Links) -> None:
        # Imported here: it takes 0.2 s, and is an extra.
        import apprise

        self.name = name
        self._links = links
        self._apprise = apprise.Apprise()
        for url in settings.urls:
            self._apprise.add(url.get_secret_value())

    def send(self, group: Mapping[str, str], alerts: Sequence[StoredAlert], now_ns: int) -> str | None:
        """Send `alerts`; None when every service took them, else why not. Blocks."""
        body = text(alerts, self._links)
        kind = "failure" if status(alerts) == "firing" else "success"
        taken = self._apprise.notify(body=body, title=subject(alerts), notify_type=kind)
        return None if taken else "some service of apprise did not take it"

    def close(self) -> None:
        """Does nothing: no connection is kept open."""
