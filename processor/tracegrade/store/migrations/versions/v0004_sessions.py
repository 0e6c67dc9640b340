"""Sessions: rows with the traces that they are made of."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("traces", sa.Column("members", sa.Text))
    going_on = sa.text("close_reason = 'turn'")
    op.create_index("sessions_going_on", "traces", ["closed_ns"], sqlite_where=going_on, postgresql_where=going_on)
