"""What `rules backtest --store` judged afterwards."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "backfills",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("rule_id", sa.Text, primary_key=True),
        sa.Column("rule_hash", sa.Text, nullable=False),
        sa.Column("made_ns", sa.BigInteger, nullable=False),
        sa.Column("since_ns", sa.BigInteger, nullable=False),
        sa.Column("until_ns", sa.BigInteger, nullable=False),
        sa.Column("subjects", sa.Integer, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
    )
