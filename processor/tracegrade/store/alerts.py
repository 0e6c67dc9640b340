"""Stored alerts: one row each time an alert fires, kept until long after it was resolved; silences; waiting alerts."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, func, insert, or_, select

from tracegrade.codec.json_text import storable
from tracegrade.store.diagnosis import Diagnosis, Reason, Slice
from tracegrade.store.documents import put, records
from tracegrade.store.named import id_named
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import ALERT_STATES, alerts, silences, waiting_alerts

AlertState: TypeAlias = Literal["firing", "resolved"]
EndReason: TypeAlias = Literal["", "recovered", "superseded", "changed", "stale", "accepted"]
"""Why an alert was resolved: "changed" stands for its rule, "superseded" for its release; "" while it fires."""

_FIRING, _RESOLVED = ALERT_STATES.index("firing"), ALERT_STATES.index("resolved")


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """Of an objective over ``window_s`` seconds: ``left`` is the part of its error budget that is left (below 0: more
    was spent; None: nothing was judged), of which ``spent_in_s`` seconds are left at the present rate (None: for ever).

    The value of the alert is the burn rate over the last ``over_s`` seconds, in which ``failed`` of its samples failed
    (None where only some results are kept, and in alerts of earlier versions).
    """

    objective: float
    window_s: float
    over_s: float
    left: float | None
    spent_in_s: float | None
    failed: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a notification says in addition to the value.

    The value lies between ``low`` and ``high``. ``was`` is the baseline, None where there is only a bound, measured on
    ``was_samples`` results (0: stated). ``by_chance_every_s``: evidence this strong comes by chance once in so many
    seconds at most. ``fired_at``: the value when it began to fire. Both are None for alerts of earlier versions.
    ``since_ns``: when it began, as far as results tell. ``traces``: how many were looked at when it began to fire, 0
    for unknown; ``more_traces``: that is the least. ``worst``: ids of traces to look at. ``changed``: sentences on what
    changed near that time or since. ``reasons`` and ``slices`` are those of its `Diagnosis`. These and ``worst`` were
    computed at ``causes_as_of_ns``, from the results from ``causes_since_ns`` on; 0 in alerts of earlier versions,
    which did so when it began to fire. ``description`` and ``references`` are the rule's. ``end_reason`` and
    ``ended_by``: why it was resolved, in a word and in words.
    """

    low: float = 0.0
    high: float = 1.0
    was: float | None = None
    was_samples: int = 0
    by_chance_every_s: float | None = None
    fired_at: float | None = None
    since_ns: int | None = None
    traces: int = 0
    more_traces: bool = False
    worst: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    description: str = ""
    references: list[str] = field(default_factory=list)
    end_reason: EndReason = ""
    ended_by: str = ""
    budget: ErrorBudget | None = None
    causes_as_of_ns: int = 0
    causes_since_ns: int = 0


_FACTS = {known.name for known in dataclass_fields(Facts)}  # rows of earlier versions have others, too


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """One firing of one alert.

    ``fingerprint`` (32 hex digits) is the same every time this alert of this series fires. ``of`` names the watched
    number, ``value`` is its last value, over ``samples`` results, compared with ``bound``. ``release`` is None for all
    releases together, and "" for results without one. ``incident``: the id of the incident that it is a member of.
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
    bound: float
    over_s: float
    value: float
    samples: int
    updated_ns: int
    kind: str = "below"
    rule_hash: str = ""
    agent: str = ""
    release: str | None = None
    facts: Facts = field(default_factory=Facts)
    incident: str | None = None

    @property
    def key(self) -> str:
        """Identifies this firing; the same in all its notifications, including repeated ones."""
        return f"{self.fingerprint}-{self.starts_ns // 1_000_000_000}"

    @property
    def is_of_history(self) -> bool:
        """Whether it is measured against earlier results, so that another level may be accepted as the normal one."""
        return self.facts.was is not None and self.facts.was_samples > 0

    @property
    def labels(self) -> dict[str, str]:
        """The labels by which alerts are grouped, silenced and distinguished."""
        return {
            "alertname": self.rule_id,
            "rule": self.rule_id,
            "rule_hash": self.rule_hash[:8],
            "kind": self.kind,
            "of": self.of,
            "service": self.service,
            "agent": self.agent,
            "release": self.release or "",
            "tenant": self.tenant,
            "level": self.level,
            "severity": self.level,  # routes of Alertmanager and others usually read it
        }

    def to_json(self) -> dict[str, Any]:
        """The documented JSON object: the fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Silence:
    """From ``starts_ns`` up to ``ends_ns``, no channel is notified of alerts whose labels match all globs.

    ``author`` made it, and gave ``comment`` as the reason; "" where it is not known.
    """

    id: str
    labels: dict[str, str]
    starts_ns: int
    ends_ns: int
    comment: str
    author: str = ""


def open_alerts(connection: Connection) -> list[StoredAlert]:
    """The alerts that fire now, oldest first."""
    query = select(alerts).where(alerts.c.state == _FIRING).order_by(alerts.c.starts_ns, alerts.c.fingerprint)
    return [alert_of(row) for row in connection.execute(query)]


def recent_alerts(
    connection: Connection,
    ended_after_ns: int,
    *,
    result_filter: ResultFilter | None = None,
    firing: bool = False,
) -> list[StoredAlert]:
    """The alerts that fire now, or were resolved at or after `ended_after_ns`; latest start first.

    Args:
        connection: on the store.
        ended_after_ns: ns since 1970 UTC.
        result_filter: only of this rule, service, agent, release and tenant; alerts over all releases are of each.
        firing: only alerts that fire now.
    """
    over = and_(alerts.c.state == _RESOLVED, alerts.c.ends_ns >= ended_after_ns)
    query = select(alerts).where(or_(alerts.c.state == _FIRING, over))
    if firing:
        query = query.where(alerts.c.state == _FIRING)
    if result_filter is not None:
        query = query.where(*_of_alerts(result_filter))
    query = query.order_by(alerts.c.starts_ns.desc(), alerts.c.fingerprint)
    return [alert_of(row) for row in connection.execute(query)]


def incidents_with(result_filter: ResultFilter) -> Select[Any]:
    """The ids of the incidents that have such an alert, as a query."""
    return select(alerts.c.incident).where(*_of_alerts(result_filter))


def _of_alerts(result_filter: ResultFilter) -> Iterator[ColumnElement[bool]]:
    for column, value in (
        (alerts.c.rule_id, result_filter.rule),
        (alerts.c.service, result_filter.service),
        (alerts.c.agent, result_filter.agent),
        (alerts.c.tenant, result_filter.tenant),
    ):
        if value is not None:
            yield column == storable(value)
    if result_filter.release is not None:
        yield or_(alerts.c.release == storable(result_filter.release), alerts.c.release.is_(None))


def save_alert(connection: Connection, alert: StoredAlert) -> None:
    """Store `alert`, replacing what was stored of the same firing."""
    fields = asdict(alert)
    fields["fingerprint"] = bytes.fromhex(alert.fingerprint)
    fields["state"] = ALERT_STATES.index(alert.state)
    put(connection, alerts, fields)


def stored_silences(connection: Connection, ended_after_ns: int) -> list[Silence]:
    """Silences that end after a time, the first to end first."""
    query = select(silences).where(silences.c.ends_ns > ended_after_ns).order_by(silences.c.ends_ns, silences.c.id)
    return records(connection, Silence, query)


def silence_named(connection: Connection, written: str, now_ns: int) -> str | None:
    """The id of the silence in force that has it, or whose id alone begins so; None without one. Raises `NotFound`."""
    return id_named(connection, silences.c.id, written, "silence", silences.c.ends_ns > now_ns)


def silences_in_force(connection: Connection, now_ns: int) -> int:
    """How many silences end after `now_ns`."""
    counted = select(func.count()).select_from(silences).where(silences.c.ends_ns > now_ns)
    return int(connection.execute(counted).scalar_one())


def delete_ended_silences(connection: Connection, before_ns: int) -> None:
    """Delete silences that ended before a time."""
    connection.execute(delete(silences).where(silences.c.ends_ns < before_ns))


def save_silence(connection: Connection, silence: Silence) -> None:
    """Store a silence, replacing one of the same id."""
    put(connection, silences, asdict(silence))


def alert_of(row: Any) -> StoredAlert:
    """The alert of one row of `alerts`."""
    fields = row._asdict()
    fields["fingerprint"] = bytes(row.fingerprint).hex()
    fields["state"] = ALERT_STATES[row.state]
    facts = {name: value for name, value in row.facts.items() if name in _FACTS}
    found = Diagnosis.from_json(row.facts)
    budget = ErrorBudget(**facts["budget"]) if facts.get("budget") else None
    fields["facts"] = Facts(**facts | {"reasons": found.reasons, "slices": found.slices, "budget": budget})
    return StoredAlert(**fields)


WaitingReason: TypeAlias = Literal["no_baseline", "too_few"]


@dataclass(frozen=True, slots=True)
class WaitingAlert:
    """One alert of a rule, in words, at one agent, about which nothing can be told.

    ``reason``: "no_baseline" when there is nothing to compare with yet, "too_few" when there are too few results.
    ``since_ns``: since when, ns since 1970 UTC.
    """

    rule_id: str
    alert: str
    tenant: str
    service: str
    agent: str
    reason: WaitingReason
    since_ns: int


def stored_waiting(connection: Connection) -> list[WaitingAlert]:
    """All of them, by rule, then by service and agent."""
    return sorted(records(connection, WaitingAlert, select(waiting_alerts)), key=waiting_order)


def save_waiting(connection: Connection, waiting: Sequence[WaitingAlert]) -> None:
    """Store these in place of all that were stored."""
    connection.execute(delete(waiting_alerts))
    if waiting:
        connection.execute(insert(waiting_alerts), [asdict(one) for one in waiting])


def waiting_order(waiting: WaitingAlert) -> tuple[str, ...]:
    """The order in which they are listed."""
    return waiting.rule_id, waiting.service, waiting.agent, waiting.alert, waiting.tenant
