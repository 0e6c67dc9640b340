"""Alerts to Slack, by an incoming webhook.

Source: Slack's documentation of incoming webhooks and of the `mrkdwn` text form.
"""

from collections.abc import Mapping, Sequence

import orjson

from tracegrade.alert.links import Links
from tracegrade.alert.message import lines, subject, summary
from tracegrade.alert.posting import Poster
from tracegrade.alert.settings import SlackSettings
from tracegrade.store.alerts import StoredAlert

# Slack takes at most 50 blocks, of 3,000 characters each.
_MAX_ALERTS = 40
_MAX_CHARACTERS = 2900


class Slack:
    """Posts one message for each group of alerts."""

    resend_s: float | None = None
    records = False

    def __init__(self, name: str, settings: SlackSettings, links: Links) -> None:
        self.name = name
        self._url = settings.url.get_secret_value()
        self._links = links
        self._poster = Poster(settings.timeout)

    def send(self, group: Mapping[str, str], alerts: Sequence[StoredAlert], now_ns: int) -> str | None:
        """Post `alerts`; None when they were taken, else why not. Blocks."""
        blocks = [_section(alert, self._links) for alert in alerts[:_MAX_ALERTS]]
        if (more := len(alerts) - _MAX_ALERTS) > 0:
            blocks.append(_text(f"and {more} more"))
        if self._links.page:
            blocks.append(_text(f"<{self._links.page}|TraceGrade>"))
        return self._poster.post(self._url, orjson.dumps({"text": _escaped(subject(alerts)), "blocks": blocks}), {})

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()


def _section(alert: StoredAlert, links: Links) -> dict[str, object]:
    head = f"*{alert.state}* ({alert.level}) {_escaped(summary(alert))}"
    return _text("\n".join([head, *map(_escaped, lines(alert, links))]))


def _text(text: str) -> dict[str, object]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text[:_MAX_CHARACTERS]}}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
