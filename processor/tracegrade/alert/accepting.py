"""Accepting the level of an incident as the new normal one: which of its alerts can be accepted, and noting it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracegrade.alert.noting import Author, note
from tracegrade.model.errors import NotPossible
from tracegrade.store import incidents
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.incidents import Incident
from tracegrade.store.open import changing_store


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What accepting an incident does to its alerts that fire.

    ``ending`` are measured against earlier results: they end with the next check. ``staying`` go on: what they are
    compared with stands in the rule.
    """

    ending: Sequence[StoredAlert]
    staying: Sequence[StoredAlert]


def acceptance(incident: Incident) -> Acceptance:
    """What accepting `incident` would do.

    Raises:
        NotPossible: it is over, or none of its alerts is measured against earlier results.
    """
    firing = [alert for alert in incident.members if alert.state == "firing"]
    if not firing:
        raise NotPossible(f"incident {incident.id} is over; there is nothing to accept")
    ending = [alert for alert in firing if alert.is_of_history]
    if not ending:
        raise NotPossible(
            f"no alert of incident {incident.id} compares with earlier results: its bound stands in the rule "
            f"{incident.lead.rule_id}; change it there, or use 'tracegrade alerts silence'"
        )
    return Acceptance(ending, [alert for alert in firing if not alert.is_of_history])


def accept(store_url: str, incident: Incident, author: Author, now_ns: int) -> Acceptance:
    """Take the level of `incident`, which is stored at `store_url`, as the normal one from `now_ns` on.

    Raises:
        NotPossible: as `acceptance`; then nothing is written.
        StoreError: the store cannot be opened.
    """
    found = acceptance(incident)
    with changing_store(store_url) as connection:
        incidents.accept(connection, incident.id, now_ns)
        note(connection, incident, author, "accepted", now_ns)
    return found
