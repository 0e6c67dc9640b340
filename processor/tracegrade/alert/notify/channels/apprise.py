"""Incidents to the services that apprise knows; needs the extra tracegrade[notify]."""

from tracegrade.alert.notify.links import Links
from tracegrade.alert.notify.message import subject, text
from tracegrade.alert.notify.settings import AppriseSettings
from tracegrade.store.incidents import Incident


class Apprise:
    """Sends each incident to all addresses."""

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

    def send(self, incident: Incident, now_ns: int) -> str | None:
        """Send `incident`; None when every service took them, else why not. Blocks."""
        body = text(incident, self._links)
        kind = "failure" if incident.state == "firing" else "success"
        taken = self._apprise.notify(body=body, title=subject(incident), notify_type=kind, body_format="text")
        return None if taken else "some service of apprise did not take it"

    def close(self) -> None:
        """Does nothing: no connection is kept open."""
