"""Incidents as OpenTelemetry log events, sent to an OTLP exporter beside the evaluations that they are about."""

import asyncio

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from tracegrade import semconv
from tracegrade.alert.notify.links import NO_LINKS, Links
from tracegrade.alert.wording import headline, summary
from tracegrade.model.json_value import JsonValue
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import Exports
from tracegrade.otlp.encode import LOG_RECORD_ATTRIBUTES, RESOURCE_ATTRIBUTES, Item, any_value, requests
from tracegrade.otlp.encode import unkept_attribute as attribute
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.incidents import Incident

_SEVERITY = {
    "info": (SeverityNumber.SEVERITY_NUMBER_INFO, "INFO"),
    "low": (SeverityNumber.SEVERITY_NUMBER_WARN, "WARN"),
    "medium": (SeverityNumber.SEVERITY_NUMBER_WARN, "WARN"),
    "high": (SeverityNumber.SEVERITY_NUMBER_ERROR, "ERROR"),
    "critical": (SeverityNumber.SEVERITY_NUMBER_FATAL, "FATAL"),
}
_OVER = _SEVERITY["info"]
# Longer than any attempt: an exporter's own time-out comes first.
_PATIENCE_S = 60.0


class AlertEvents:
    """Sends an event when an incident begins, and one when it is over; to one exporter.

    The same incident in the same state gives the same bytes, except for what changed in between, and has the same key.
    """

    resend_s: float | None = None
    records = True

    def __init__(self, name: str, client: Exports, loop: asyncio.AbstractEventLoop, links: Links = NO_LINKS) -> None:
        """Prepare.

        Args:
            name: the exporter's place in the settings.
            client: used in `loop`; the caller closes it.
            loop: runs in another thread than the one that calls `send`.
            links: what events link to.
        """
        self._links = links
        self.name = name
        self._client = client
        self._loop = loop

    def send(self, incident: Incident, now_ns: int) -> str | None:
        """Send `incident`. Returns None when it was taken, else why not. Blocks."""
        for request in requests([Item(0, _resource(incident.clearest), [event(incident, self._links)])]):
            sent = asyncio.run_coroutine_threadsafe(self._client.export(Signal.LOGS, request.payload), self._loop)
            answer = sent.result(_PATIENCE_S)
            if answer.kind != "sent" or answer.rejected:
                return f"{answer.reason or 'rejected'} {answer.message}".strip()
        return None

    def close(self) -> None:
        """Does nothing: no connection is kept open."""


def event(incident: Incident, links: Links = NO_LINKS) -> bytes:
    """The encoded log record of an incident that begins, or is over."""
    alert, facts = incident.clearest, incident.clearest.facts
    is_over = incident.ends_ns is not None
    time_ns = incident.starts_ns if incident.ends_ns is None else incident.ends_ns
    number, text = _OVER if is_over else _SEVERITY[incident.level]
    record = LogRecord(
        time_unix_nano=time_ns,
        observed_time_unix_nano=time_ns,
        severity_number=number,
        severity_text=text,
        body=any_value(headline(incident)),
        event_name=semconv.ALERT_EVENT,
    )
    pairs: dict[str, JsonValue] = {
        semconv.EVENT_NAME: semconv.ALERT_EVENT,
        semconv.ALERT_STATE: incident.state,
        semconv.ALERT_KEY: incident.id,
        semconv.ALERT_KIND: alert.kind,
        semconv.ALERT_OF: alert.of,
        semconv.ALERT_VALUE: alert.value + 0.0,
        semconv.ALERT_LOW: facts.low + 0.0,
        semconv.ALERT_HIGH: facts.high + 0.0,
        semconv.ALERT_BOUND: alert.bound + 0.0,
        semconv.ALERT_SAMPLES: alert.samples,
        semconv.ALERT_TRACES: [*facts.worst],
        semconv.ALERT_CHANGED: [*facts.changed],
        semconv.ALERT_MEMBERS: [summary(member) for member in incident.members],
        semconv.RULE_ID: alert.rule_id,
        semconv.RULE_HASH: alert.rule_hash,
        semconv.RULE_LEVEL: incident.level,
        semconv.TENANT: alert.tenant,
    }
    if facts.was is not None:
        pairs[semconv.ALERT_WAS] = facts.was + 0.0
    if page := links.incident(incident.id):
        pairs[semconv.ALERT_URL] = page
    if alert.agent:
        pairs[semconv.AGENT_NAME] = alert.agent
    encoded = b"".join([attribute(LOG_RECORD_ATTRIBUTES, key, value) for key, value in pairs.items()])
    return record.SerializeToString(deterministic=True) + encoded


def _resource(alert: StoredAlert) -> bytes:
    named = {semconv.SERVICE_NAME: alert.service, semconv.SERVICE_VERSION: alert.release or ""}
    return b"".join([attribute(RESOURCE_ATTRIBUTES, key, value) for key, value in named.items() if value])
