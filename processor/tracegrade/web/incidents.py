"""Incidents in words, as lists of them and their own pages show them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracegrade.alert.notify.message import headline
from tracegrade.alert.notify.silences import silence_of
from tracegrade.store.alerts import Silence, StoredAlert
from tracegrade.store.incidents import Incident

# How an alert ended: the kind of its badge, and what the badge says.
_ENDS = {
    "recovered": ("good", "✓ recovered"),
    "accepted": ("good", "✓ accepted as normal"),
    "superseded": ("", "→ release replaced"),
    "changed": ("", "✎ rule changed"),
    "stale": ("", "… nothing came any more"),
    "": ("good", "✓ resolved"),
}


@dataclass(frozen=True, slots=True)
class ShownIncident:
    """An incident in words: its headline, and its state as the kind of a badge and what the badge says."""

    incident: Incident
    headline: str
    badge: tuple[str, str]
    silence: Silence | None


def shown_incidents(found: Iterable[Incident], silences: Sequence[Silence], now_ns: int) -> list[ShownIncident]:
    """The incidents as lists show them; `silences` are those in force."""
    return [
        ShownIncident(
            incident,
            headline(incident),
            badge_of(incident.clearest) if incident.state == "resolved" else badge_of(_firing(incident)),
            silence_of(incident, silences, now_ns) if incident.state == "firing" else None,
        )
        for incident in found
    ]


def badge_of(alert: StoredAlert) -> tuple[str, str]:
    """The state of an alert: the kind of its badge, and what the badge says."""
    return ("bad", "▲ firing") if alert.state == "firing" else _ENDS[alert.facts.end_reason]


def _firing(incident: Incident) -> StoredAlert:
    return next(alert for alert in incident.members if alert.state == "firing")
