"""Stored incidents: alerts that fired together since one thing went wrong, and who was notified of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

from sqlalchemy import Connection, and_, delete, func, or_, select, update

from tracegrade.store.alerts import AlertState, StoredAlert, alert_of, incidents_with
from tracegrade.store.database import rows_in
from tracegrade.store.documents import put
from tracegrade.store.named import id_named
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import alerts, incidents

LEVELS = ("info", "low", "medium", "high", "critical")
"""How much an alert matters, least first."""


@dataclass(frozen=True, slots=True)
class Notification:
    """The last notification of an incident to one channel: its state, level and time.

    Since then, ``tries`` attempts failed, the last one with ``error``.
    """

    state: str = ""
    time_ns: int = 0
    tries: int = 0
    error: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """Alerts that fired together. People are notified once of all of them.

    ``members``: the first is the one by whose labels the incident is known; the others follow in the order in which
    they began. ``accepted_ns``: when someone took the new level as the normal one.
    ``notified``: by the name of the channel.
    """

    id: str
    members: Sequence[StoredAlert]
    accepted_ns: int | None = None
    notified: dict[str, Notification] = field(default_factory=dict)

    @property
    def lead(self) -> StoredAlert:
        """The member by whose labels the incident is known."""
        return self.members[0]

    @property
    def clearest(self) -> StoredAlert:
        """The member that says most of what broke: it fires if any does, it knows what was usual, and since when."""
        return min(
            self.members,
            key=lambda member: (member.state != self.state, member.kind in ("slo", "silent"), member.facts.was is None),
        )

    @property
    def state(self) -> AlertState:
        """``firing`` while any member fires."""
        return "firing" if any(member.state == "firing" for member in self.members) else "resolved"

    @property
    def starts_ns(self) -> int:
        """When the first member began to fire."""
        return min(member.starts_ns for member in self.members)

    @property
    def ends_ns(self) -> int | None:
        """When the last member was resolved; None while one fires."""
        ends = [member.ends_ns for member in self.members]
        return None if None in ends else max(end for end in ends if end is not None)

    @property
    def level(self) -> str:
        """The highest of its members'."""
        return max((member.level for member in self.members), key=LEVELS.index)

    @property
    def labels(self) -> dict[str, str]:
        """Those of the lead, with the level of the incident."""
        return {**self.lead.labels, "level": self.level, "severity": self.level, "incident": self.id}

    def to_json(self) -> dict[str, Any]:
        """The documented JSON object."""
        return {
            "id": self.id,
            "state": self.state,
            "level": self.level,
            "starts_ns": self.starts_ns,
            "ends_ns": self.ends_ns,
            "accepted_ns": self.accepted_ns,
            "members": [member.to_json() for member in self.members],
            "notified": {name: asdict(last) for name, last in self.notified.items()},
        }


def incident_id(lead: StoredAlert) -> str:
    """The id of the incident that begins with `lead`: 10 hex digits, the same after a restart."""
    return blake2b(lead.key.encode(), digest_size=5).hexdigest()


def open_incidents(connection: Connection) -> list[Incident]:
    """The incidents of which an alert fires now, oldest first."""
    return list(reversed(_incidents_where(connection, incidents.c.ends_ns.is_(None))))


def recent_incidents(
    connection: Connection,
    ended_after_ns: int,
    limit: int | None = None,
    *,
    result_filter: ResultFilter | None = None,
    firing: bool = False,
    begun_by_ns: int | None = None,
) -> list[Incident]:
    """The incidents that fire now, or were resolved at or after `ended_after_ns`; latest start first.

    Args:
        connection: on the store.
        ended_after_ns: ns since 1970 UTC.
        limit: the largest number of them; the latest are given.
        result_filter: only those with a member of this rule, service, agent, release and tenant.
        firing: only incidents that fire now.
        begun_by_ns: only incidents that began then or before.
    """
    fires = incidents.c.ends_ns.is_(None)
    wanted = fires if firing else or_(fires, incidents.c.ends_ns >= ended_after_ns)
    if begun_by_ns is not None:
        wanted = and_(wanted, incidents.c.starts_ns <= begun_by_ns)
    return _incidents_where(connection, wanted, limit, result_filter)


def stored_incident(connection: Connection, id_: str) -> Incident | None:
    """The incident with this id; None when there is none."""
    return next(iter(_incidents_where(connection, incidents.c.id == id_)), None)


def incident_named(connection: Connection, written: str) -> Incident | None:
    """The incident that has this id, or whose id alone begins so; None when none does. Raises `NotFound`."""
    id_ = id_named(connection, incidents.c.id, written, "incident")
    return None if id_ is None else stored_incident(connection, id_)


def changed_ns(connection: Connection) -> int:
    """When an incident last began, was accepted or ended, ns since 1970 UTC; 0 without incidents."""
    times = (incidents.c.starts_ns, incidents.c.accepted_ns, incidents.c.ends_ns)
    latest = connection.execute(select(*(func.coalesce(func.max(time_ns), 0) for time_ns in times))).one()
    return int(max(latest))


def save_incident(connection: Connection, incident: Incident) -> None:
    """Store what is known of an incident except for its members and whether it was accepted."""
    fields = {
        "id": incident.id,
        "tenant": incident.lead.tenant,
        "lead": incident.lead.key,
        "starts_ns": incident.starts_ns,
        "ends_ns": incident.ends_ns,
        "notified": {name: asdict(last) for name, last in incident.notified.items()},
    }
    put(connection, incidents, fields)


def accept(connection: Connection, id_: str, now_ns: int) -> None:
    """Note that the new level of an incident is to be taken as the normal one; the next check ends its alerts."""
    connection.execute(update(incidents).where(incidents.c.id == id_).values(accepted_ns=now_ns))


def delete_resolved(connection: Connection, before_ns: int) -> None:
    """Delete incidents that ended before a time, with their alerts."""
    connection.execute(delete(alerts).where(alerts.c.ends_ns < before_ns, _is_over(before_ns)))
    connection.execute(delete(incidents).where(incidents.c.ends_ns < before_ns))


def _is_over(before_ns: int) -> Any:
    over = select(incidents.c.id).where(incidents.c.ends_ns < before_ns)
    return or_(alerts.c.incident.is_(None), alerts.c.incident.in_(over))


def _incidents_where(
    connection: Connection, wanted: Any, limit: int | None = None, result_filter: ResultFilter | None = None
) -> list[Incident]:
    query = select(incidents).where(wanted)
    if result_filter is not None:
        query = query.where(incidents.c.id.in_(incidents_with(result_filter)))
    rows = connection.execute(query.order_by(incidents.c.starts_ns.desc(), incidents.c.lead).limit(limit)).all()
    members = _members(connection, [row.id for row in rows])
    return [
        Incident(
            row.id,
            sorted(members[row.id], key=lambda alert: (alert.key != row.lead, alert.starts_ns, alert.fingerprint)),
            row.accepted_ns,
            {name: Notification(**last) for name, last in row.notified.items()},
        )
        for row in rows
        if row.id in members  # without one, it is of a store that someone changed by hand
    ]


def _members(connection: Connection, ids: Iterable[str]) -> dict[str, list[StoredAlert]]:
    found: defaultdict[str, list[StoredAlert]] = defaultdict(list)
    for row in rows_in(connection, select(alerts), alerts.c.incident, ids):
        found[row.incident].append(alert_of(row))
    return dict(found)
