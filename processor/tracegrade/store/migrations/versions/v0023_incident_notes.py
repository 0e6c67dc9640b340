"""What people did about incidents, and who made a silence."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table `incident_notes`, and the column `author` of `silences`."""
    op.create_table(
        "incident_notes",
        sa.Column("incident", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("time_ns", sa.BigInteger, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.add_column("silences", sa.Column("author", sa.Text, nullable=False, server_default=""))
