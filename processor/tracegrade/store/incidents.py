"""Stored incidents: alerts that fired together since one thing went wrong, who was notified, and what people did."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from tracegrade.store.alerts import AlertState, StoredAlert, alert_of, incidents_with
from tracegrade.store.database import rows_in
from tracegrade.store.documents import put
from tracegrade.store.named import id_named
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import alerts, incident_notes, incidents

LEVELS = ("info", "low", "medium", "high", "critical")
"""How much an alert matters, least first."""

_MOST_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts in a row to send one state and level of an incident to a channel, with one outcome.

    From ``time_ns`` to ``until_ns``, ``times`` of them: the channel took all, or refused all with ``error``.
    """

    state: str
    level: str
    time_ns: int
    until_ns: int
    times: int = 1
    error: str = ""


@dataclass(frozen=True, slots=True)
class Notification:
    """The last notification of an incident to one channel: its state, level and time.

    Since then, ``tries`` attempts failed, the last one with ``error``. ``sent``: all attempts, the oldest first; of
    very many, the newest.
    """

    state: str = ""
    time_ns: int = 0
    tries: int = 0
    error: str = ""
    level: str = ""
    sent: list[Attempts] = field(default_factory=list)

    def after(self, incident: "Incident", refused: str | None, now_ns: int) -> "Notification":
        """As it is after an attempt: `refused` says why the channel did not take it; None: it did."""
        attempt = Attempts(incident.state, incident.level, now_ns, now_ns, error=refused or "")
        *before, last = self.sent or [attempt]
        if self.sent and (last.state, last.level, last.error) == (attempt.state, attempt.level, attempt.error):
            last = replace(last, until_ns=now_ns, times=last.times + 1)
        elif self.sent:
            before, last = [*before, last], attempt
        sent = [*before, last][-_MOST_ATTEMPTS:]
        if refused is None:
            return Notification(incident.state, now_ns, level=incident.level, sent=sent)
        return replace(self, tries=self.tries + 1, error=refused, sent=sent)


NoteKind: TypeAlias = Literal["acknowledged", "owned", "commented", "accepted", "silenced"]


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that ``author`` did about an incident, whose level was ``level`` then.

    ``text``: what a comment says; of a silence that was made from the incident, its labels and its end.
    """

    id: str
    time_ns: int
    author: str
    kind: NoteKind
    level: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """Alerts that fired together. People are notified once of all of them.

    ``members``: the first is the one by whose labels the incident is known; the others follow in the order in which
    they began. ``accepted_ns``: when someone took the new level as the normal one.
    ``notified``: by the name of the channel. ``notes``: what people did, the oldest first.
    """

    id: str
    members: Sequence[StoredAlert]
    accepted_ns: int | None = None
    notified: dict[str, Notification] = field(default_factory=dict)
    notes: Sequence[Note] = ()

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
    def acknowledged(self) -> Note | None:
        """The last acknowledgement; None without one, and when the level is higher than it was then."""
        last = next((note for note in reversed(self.notes) if note.kind == "acknowledged"), None)
        holds = last is not None and LEVELS.index(self.level) <= LEVELS.index(last.level)
        return last if holds else None

    @property
    def owner(self) -> str | None:
        """Who made themselves its owner last."""
        return next((note.author for note in reversed(self.notes) if note.kind == "owned"), None)

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
            "acknowledged": None if self.acknowledged is None else asdict(self.acknowledged),
            "owner": self.owner,
            "notes": [asdict(note) for note in self.notes],
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
    """When an incident last began or ended, or somebody did something about one, ns since 1970 UTC; 0 without any."""
    times = (incidents.c.starts_ns, incidents.c.accepted_ns, incidents.c.ends_ns)
    latest = connection.execute(select(*(func.coalesce(func.max(time_ns), 0) for time_ns in times))).one()
    noted = connection.execute(select(func.coalesce(func.max(incident_notes.c.time_ns), 0))).scalar_one()
    return int(max(*latest, noted))


def save_incident(connection: Connection, incident: Incident) -> None:
    """Store what is known of an incident except for its members and what people did."""
    fields = {
        "id": incident.id,
        "tenant": incident.lead.tenant,
        "lead": incident.lead.key,
        "starts_ns": incident.starts_ns,
        "ends_ns": incident.ends_ns,
        "notified": {name: asdict(last) for name, last in incident.notified.items()},
    }
    put(connection, incidents, fields)


def add_note(connection: Connection, incident: Incident, note: Note) -> None:
    """Store what somebody did about an incident."""
    values = {**asdict(note), "incident": incident.id, "tenant": incident.lead.tenant}
    connection.execute(insert(incident_notes).values(values))


def accept(connection: Connection, id_: str, now_ns: int) -> None:
    """Note that the new level of an incident is to be taken as the normal one; the next check ends its alerts."""
    connection.execute(update(incidents).where(incidents.c.id == id_).values(accepted_ns=now_ns))


def delete_resolved(connection: Connection, before_ns: int) -> None:
    """Delete incidents that ended before a time, with their alerts and with what people did."""
    over = select(incidents.c.id).where(incidents.c.ends_ns < before_ns)
    of_it = or_(alerts.c.incident.is_(None), alerts.c.incident.in_(over))
    connection.execute(delete(alerts).where(alerts.c.ends_ns < before_ns, of_it))
    connection.execute(delete(incident_notes).where(incident_notes.c.incident.in_(over)))
    connection.execute(delete(incidents).where(incidents.c.ends_ns < before_ns))


def _incidents_where(
    connection: Connection, wanted: Any, limit: int | None = None, result_filter: ResultFilter | None = None
) -> list[Incident]:
    query = select(incidents).where(wanted)
    if result_filter is not None:
        query = query.where(incidents.c.id.in_(incidents_with(result_filter)))
    rows = connection.execute(query.order_by(incidents.c.starts_ns.desc(), incidents.c.lead).limit(limit)).all()
    ids = [row.id for row in rows]
    members, notes = _members(connection, ids), _notes(connection, ids)
    return [
        Incident(
            row.id,
            sorted(members[row.id], key=lambda alert: (alert.key != row.lead, alert.starts_ns, alert.fingerprint)),
            row.accepted_ns,
            {name: _notification(last) for name, last in row.notified.items()},
            notes.get(row.id, ()),
        )
        for row in rows
        if row.id in members  # without one, it is of a store that someone changed by hand
    ]


def _notification(stored: dict[str, Any]) -> Notification:
    return Notification(**stored | {"sent": [Attempts(**one) for one in stored.get("sent", ())]})


def _notes(connection: Connection, ids: Iterable[str]) -> dict[str, list[Note]]:
    found: defaultdict[str, list[Note]] = defaultdict(list)
    for row in rows_in(connection, select(incident_notes), incident_notes.c.incident, ids):
        found[row.incident].append(Note(row.id, row.time_ns, row.author, row.kind, row.level, row.text))
    return {id_: sorted(notes, key=lambda note: (note.time_ns, note.id)) for id_, notes in found.items()}


def _members(connection: Connection, ids: Iterable[str]) -> dict[str, list[StoredAlert]]:
    found: defaultdict[str, list[StoredAlert]] = defaultdict(list)
    for row in rows_in(connection, select(alerts), alerts.c.incident, ids):
        found[row.incident].append(alert_of(row))
    return dict(found)
