"""What alerts know of a series, silences, and the squares of scores, for how far scores lie apart."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("counts", sa.Column("score_squares", sa.Float, nullable=False, server_default="0"))
    # No square of a score between 0 and 1 is larger: until now as if scores lay as far apart as they can.
    op.execute("UPDATE counts SET score_squares = score_sum")
    op.execute("ALTER TABLE alerts RENAME COLUMN below TO bound")
    op.add_column("alerts", sa.Column("kind", sa.Text, nullable=False, server_default="below"))
    op.add_column("alerts", sa.Column("rule_hash", sa.Text, nullable=False, server_default=""))
    op.add_column("alerts", sa.Column("agent", sa.Text, nullable=False, server_default=""))
    op.add_column("alerts", sa.Column("release", sa.Text))
    op.add_column("alerts", sa.Column("facts", sa.JSON, nullable=False, server_default="{}"))
    # Until now there was one word for each channel: the state of the last notification.
    op.execute("UPDATE alerts SET notified = '{}'")
    op.create_table(
        "silences",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("starts_ns", sa.BigInteger, nullable=False),
        sa.Column("ends_ns", sa.BigInteger, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
    )
