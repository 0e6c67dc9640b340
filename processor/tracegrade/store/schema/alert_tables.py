"""Alerts that fired, their incidents, what people did about these, alerts that cannot tell yet, and silences."""

from sqlalchemy import JSON, BigInteger, Column, Float, Integer, LargeBinary, SmallInteger, Table, Text

from tracegrade.store.schema.metadata import metadata

alerts = Table(
    "alerts",
    metadata,
    Column("fingerprint", LargeBinary(16), primary_key=True, doc="hash of the alert and of what it watches"),
    Column("starts_ns", BigInteger, primary_key=True, autoincrement=False, doc="when it began"),
    Column("ends_ns", BigInteger, doc="when it ended; null while it lasts"),
    Column(
        "state",
        SmallInteger,
        nullable=False,
        doc="0 firing, 1 resolved",
    ),
    Column("tenant", Text, nullable=False, doc="whose"),
    Column("rule_id", Text, nullable=False, doc="the rule"),
    Column("service", Text, nullable=False, doc="the service watched"),
    Column("level", Text, nullable=False, doc="the rule's level"),
    Column("title", Text, nullable=False, doc="the rule's title"),
    Column(
        "of",
        Text,
        nullable=False,
        doc="what is watched: `pass_rate`, `not_evaluable`, `error`, an evaluation's name, NAME.score, `tokens`, "
        "`cost` or `duration`",
    ),
    Column("bound", Float, nullable=False, doc="what it is compared with"),
    Column("over_s", Float, nullable=False, doc="the window, s"),
    Column("value", Float, nullable=False, doc="what is watched, at the last look"),
    Column("samples", Integer, nullable=False, doc="results in the window"),
    Column("updated_ns", BigInteger, nullable=False, doc="the last look"),
    Column("kind", Text, nullable=False, doc="`below`, `above`, `drop`, `rise`, `coverage`, `silent` or `slo`"),
    Column("rule_hash", Text, nullable=False, doc="the rule's hash"),
    Column("agent", Text, nullable=False, doc="the agent watched"),
    Column("release", Text, doc="the release watched; null: all releases together"),
    Column("facts", JSON, nullable=False, doc="what notifications say in addition to the value"),
    Column("incident", Text, doc="the incident that it is a member of"),
    info={"about": "One row for each firing of an alert."},
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", Text, primary_key=True, doc="10 hex digits"),
    Column("tenant", Text, nullable=False, doc="whose"),
    Column("lead", Text, nullable=False, doc="the alert by whose labels it is known: fingerprint-seconds of its start"),
    Column("starts_ns", BigInteger, nullable=False, doc="when its first alert began"),
    Column("ends_ns", BigInteger, doc="when its last alert ended; null while one fires"),
    Column("accepted_ns", BigInteger, doc="when the new level was accepted as normal; null: it was not"),
    Column("notified", JSON, nullable=False, doc="channel name to its last notification, and what went wrong"),
    info={"about": "One row for each incident: alerts that fired together."},
)

incident_notes = Table(
    "incident_notes",
    metadata,
    Column("incident", Text, primary_key=True, doc="the incident"),
    Column("id", Text, primary_key=True, doc="12 hex digits"),
    Column("tenant", Text, nullable=False, doc="whose: the incident's"),
    Column("time_ns", BigInteger, nullable=False, doc="when"),
    Column("author", Text, nullable=False, doc="who: the name in the access log, or `local`"),
    Column("kind", Text, nullable=False, doc="`acknowledged`, `owned`, `commented`, `accepted` or `silenced`"),
    Column("level", Text, nullable=False, doc="the incident's level then"),
    Column("text", Text, nullable=False, doc="a comment, after redaction; of a silence, its labels and its end"),
    info={"about": "One row for each thing that somebody did about an incident. They are deleted with it."},
)

waiting_alerts = Table(
    "waiting_alerts",
    metadata,
    Column("rule_id", Text, primary_key=True, doc="the rule"),
    Column("alert", Text, primary_key=True, doc="the alert in words"),
    Column("tenant", Text, primary_key=True, doc="whose"),
    Column("service", Text, primary_key=True, doc="the service watched"),
    Column("agent", Text, primary_key=True, doc="the agent watched"),
    Column("reason", Text, nullable=False, doc="`no_baseline` or `too_few`"),
    Column("since_ns", BigInteger, nullable=False, doc="since when"),
    info={"about": "Alerts that cannot tell yet whether anything is wrong: there are too few results, or no baseline."},
)

silences = Table(
    "silences",
    metadata,
    Column("id", Text, primary_key=True, doc="what `tracegrade alerts silence` prints"),
    Column("labels", JSON, nullable=False, doc="label to glob: all must match"),
    Column("starts_ns", BigInteger, nullable=False, doc="from when"),
    Column("ends_ns", BigInteger, nullable=False, doc="until when"),
    Column("comment", Text, nullable=False, doc="the reason, in the words of its author, after redaction"),
    Column("author", Text, nullable=False, server_default="", doc="who made it; empty in those of earlier versions"),
    info={
        "about": "Silences: alerts that send no notifications for a time.",
        "without_tenant": "the label `tenant` may be among its `labels`; without it, it is of all tenants",
    },
)
