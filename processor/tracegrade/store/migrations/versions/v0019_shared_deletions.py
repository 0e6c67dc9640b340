"""PostgreSQL: deletions that all data folders with judges carry out, where Kafka is the journal."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.create_table(
            "shared_deletions",
            sa.Column("id", sa.Text, primary_key=True),
            sa.Column("requested_ns", sa.BigInteger, nullable=False),
            sa.Column("tenant", sa.Text),
            sa.Column("trace_ids", sa.LargeBinary, nullable=False),
        )
