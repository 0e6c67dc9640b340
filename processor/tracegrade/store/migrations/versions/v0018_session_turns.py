"""PostgreSQL: the turns of sessions that are stored and not judged yet, where several judges read from Kafka."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.create_table(
            "session_turns",
            sa.Column("tenant", sa.Text, primary_key=True),
            sa.Column("session", sa.Text, primary_key=True),
            sa.Column("trace_id", sa.LargeBinary, primary_key=True),
            sa.Column("revision", sa.Integer, nullable=False),
            sa.Column("closed_ns", sa.BigInteger, nullable=False),
            sa.Column("place", sa.BigInteger, nullable=False),
        )
