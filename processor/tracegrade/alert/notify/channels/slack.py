"""Incidents to Slack, by an incoming webhook.

Source: Slack's documentation of incoming webhooks and of the `mrkdwn` text form.
"""

import orjson

from tracegrade.alert.notify.links import Links
from tracegrade.alert.notify.message import details, subject
from tracegrade.alert.notify.posting import Poster
from tracegrade.alert.notify.settings import SlackSettings
from tracegrade.alert.wording import headline
from tracegrade.store.incidents import Incident

# Slack takes blocks of at most 3,000 characters.
_MAX_CHARACTERS = 2900


class Slack:
    """Posts one message for each incident."""

    resend_s: float | None = None
    records = False

    def __init__(self, name: str, settings: SlackSettings, links: Links) -> None:
        self.name = name
        self._links = links
        self._poster = Poster(settings.url.get_secret_value(), settings.timeout)

    def send(self, incident: Incident, now_ns: int) -> str | None:
        """Post `incident`; None when it was taken, else why not. Blocks."""
        head = f"*{incident.state}* ({incident.level}) {_escaped(headline(incident))}"
        blocks = [_section("\n".join([head, *map(_escaped, details(incident, self._links))]))]
        if page := self._links.incident(incident.id):
            blocks.append(_section(f"<{page}|TraceGrade>"))
        return self._poster.post(orjson.dumps({"text": _escaped(subject(incident)), "blocks": blocks}), {})

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()


def _section(text: str) -> dict[str, object]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_MAX_CHARACTERS]}}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
