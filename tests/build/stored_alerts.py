"""An alert and its incident as they are stored, for tests of whatever stores, shows or tells them."""

from dataclasses import replace

from sqlalchemy import Connection

from tracegrade.store.alerts import Facts, StoredAlert, save_alert
from tracegrade.store.incidents import Incident, Notification, incident_id, save_incident


def incident(*members: StoredAlert, notified: dict[str, Notification] | None = None) -> Incident:
    """The incident with these alerts; the first is its lead."""
    id_ = incident_id(members[0])
    return Incident(id_, [replace(member, incident=id_) for member in members], None, notified or {})


def store_incident(
    connection: Connection, *members: StoredAlert, notified: dict[str, Notification] | None = None
) -> Incident:
    """Store the incident with these alerts."""
    stored = incident(*members, notified=notified)
    save_incident(connection, stored)
    for member in stored.members:
        save_alert(connection, member)
    return stored


ALERT = StoredAlert(
    fingerprint="ab" * 16,
    starts_ns=1_767_225_600_000_000_000,  # 2026-01-01T00:00:00Z
    ends_ns=None,
    state="firing",
    tenant="default",
    rule_id="checkout-order",
    service="shop",
    level="high",
    title="Orders are validated first",
    of="pass_rate",
    bound=0.95,
    over_s=3600.0,
    value=0.5,
    samples=40,
    updated_ns=1_767_225_600_000_000_000,
    rule_hash="0123456789abcdef",
    agent="support",
    release="1.1",
    facts=Facts(
        0.35, 0.65, by_chance_every_s=30_000_000.0, worst=["aa" * 16], changed=["release 1.1 first seen at 00:00 UTC"]
    ),
)

INCIDENT = incident(ALERT)
