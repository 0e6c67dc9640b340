"""The chance with which the results of a series were kept."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Until now every subject was judged.
    op.add_column("series", sa.Column("probability", sa.Float, nullable=False, server_default="1"))
