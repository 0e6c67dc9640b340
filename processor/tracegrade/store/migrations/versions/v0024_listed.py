"""Traces have their release, cost and first words in columns; in those that are stored already, these stay empty."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add three columns that are null; no row is written."""
    op.add_column("traces", sa.Column("release", sa.Text))
    op.add_column("traces", sa.Column("cost", sa.Float))
    op.add_column("traces", sa.Column("prompt", sa.Text))
