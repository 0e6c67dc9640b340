"""Rules as they were written, by the hash that results carry: what a result was judged by can be read later."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rule_texts",
        sa.Column("rule_hash", sa.Text, primary_key=True),
        sa.Column("rule_id", sa.Text, nullable=False),
        sa.Column("first_seen_ns", sa.BigInteger, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
