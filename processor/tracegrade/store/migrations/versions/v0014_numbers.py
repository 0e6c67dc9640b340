"""PostgreSQL: numbers of traces from a sequence, so that several processes can store traces at once."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute("CREATE SEQUENCE trace_numbers")
    op.execute("SELECT setval('trace_numbers', coalesce(max(number), 0) + 1, false) FROM traces")
