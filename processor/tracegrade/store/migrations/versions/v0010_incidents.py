"""Incidents: alerts that fired together; who was notified is known of an incident, no longer of each alert.

Every stored alert becomes an incident of its own. Alerts that no version since 0005 reads, which were pending, go.
"""

import json
from hashlib import blake2b

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_NS = 1_000_000_000


def upgrade() -> None:
    incidents = op.create_table(
        "incidents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("lead", sa.Text, nullable=False),
        sa.Column("starts_ns", sa.BigInteger, nullable=False),
        sa.Column("ends_ns", sa.BigInteger),
        sa.Column("accepted_ns", sa.BigInteger),
        sa.Column("notified", sa.JSON, nullable=False),
    )
    op.create_table(
        "waiting_alerts",
        sa.Column("rule_id", sa.Text, primary_key=True),
        sa.Column("alert", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("service", sa.Text, primary_key=True),
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("since_ns", sa.BigInteger, nullable=False),
    )
    op.execute("DELETE FROM alerts WHERE state = 2")
    op.add_column("alerts", sa.Column("incident", sa.Text))
    connection = op.get_bind()
    known = connection.execute(
        sa.text("SELECT fingerprint, starts_ns, ends_ns, tenant, notified FROM alerts ORDER BY starts_ns")
    ).all()
    name = sa.text("UPDATE alerts SET incident = :incident WHERE fingerprint = :fingerprint AND starts_ns = :starts_ns")
    for fingerprint, starts_ns, ends_ns, tenant, notified in known:
        lead = f"{bytes(fingerprint).hex()}-{starts_ns // _NS}"
        incident = blake2b(lead.encode(), digest_size=5).hexdigest()
        connection.execute(name, {"incident": incident, "fingerprint": fingerprint, "starts_ns": starts_ns})
        connection.execute(
            sa.insert(incidents).values(
                id=incident,
                tenant=tenant,
                lead=lead,
                starts_ns=starts_ns,
                ends_ns=ends_ns,
                notified=json.loads(notified) if isinstance(notified, str) else notified,
            )
        )
    op.drop_column("alerts", "notified")
