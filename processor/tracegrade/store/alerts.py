"""Alerts as they are stored: one row each time an alert fires, until long after it was resolved."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from sqlalchemy import Connection, delete, insert, or_, select

from tracegrade.store.schema import ALERT_STATES, alerts

AlertState: TypeAlias = Literal["firing", "resolved"]

_FIRING = ALERT_STATES.index("firing")


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """One firing of one alert.

    ``fingerprint`` (32 hex digits) is the same every time this alert fires. ``of`` is ``pass_rate`` or an
    evaluation's name; ``value`` the rate last seen, over ``samples`` judged subjects. ``notified`` has for each
    receiver the state it was last told.
    """

    fingerprint: str
    starts_ns: int
    ends_ns: int | None
    state: AlertState
    tenant: str
    rule_id: str
    service: str
    level: str
    title: str
    of: str
    below: float
    over_s: float
    value: float
    samples: int
    updated_ns: int
    notified: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The documented JSON object: the fields by name."""
        return asdict(self)


def firing_alerts(connection: Connection) -> list[StoredAlert]:
    """What fires now, oldest first."""
    query = select(alerts).where(alerts.c.state == _FIRING).order_by(alerts.c.starts_ns, alerts.c.fingerprint)
    return [_alert(row) for row in connection.execute(query)]


def recent_alerts(connection: Connection, ended_after_ns: int, limit: int | None = None) -> list[StoredAlert]:
    """What fires now or was resolved at or after `ended_after_ns`, latest start first."""
    query = (
        select(alerts)
        .where(or_(alerts.c.state == _FIRING, alerts.c.ends_ns >= ended_after_ns))
        .order_by(alerts.c.starts_ns.desc(), alerts.c.fingerprint)
        .limit(limit)
    )
    return [_alert(row) for row in connection.execute(query)]


def save_alert(connection: Connection, alert: StoredAlert) -> None:
    """Store `alert` in place of what was stored of the same firing."""
    fields = asdict(alert)
    fields["fingerprint"] = bytes.fromhex(alert.fingerprint)
    fields["state"] = ALERT_STATES.index(alert.state)
    connection.execute(
        delete(alerts).where(alerts.c.fingerprint == fields["fingerprint"], alerts.c.starts_ns == alert.starts_ns)
    )
    connection.execute(insert(alerts).values(**fields))


def _alert(row: Any) -> StoredAlert:
    fields = row._asdict()
    fields["fingerprint"] = bytes(row.fingerprint).hex()
    fields["state"] = ALERT_STATES[row.state]
    return StoredAlert(**fields)
