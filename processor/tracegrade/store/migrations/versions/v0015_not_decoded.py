"""Traces that no rule judged, and whose spans are kept as they came."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("traces", sa.Column("not_decoded", sa.Text))
