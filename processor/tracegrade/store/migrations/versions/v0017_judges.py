"""PostgreSQL: how far each of several judges has got."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.create_table(
            "judges",
            sa.Column("name", sa.Text, primary_key=True),
            sa.Column("stored_to_ns", sa.BigInteger, nullable=False),
            sa.Column("seen", sa.DateTime(timezone=True), nullable=False),
        )
