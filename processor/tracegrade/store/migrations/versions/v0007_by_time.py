"""Sums and blocks in order of time, and a bit for each block.

Sums are copied a day at a time: sorting them all would take as much memory as they take on disk.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_DAY_MINUTES = 24 * 60
_SUMS = "passed, failed, not_evaluable, errors, score_sum, score_squares"


def upgrade() -> None:
    op.rename_table("blocks", "blocks_by_series")
    op.create_table(
        "blocks",
        sa.Column("chunk", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("series", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("outcome", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("held", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO blocks (chunk, series, outcome, held) SELECT block / 32, series, outcome, "
        "CAST(sum(CAST(1 AS BIGINT) << CAST(block % 32 AS INTEGER)) AS BIGINT) "
        "FROM blocks_by_series GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
    op.drop_table("blocks_by_series")
    op.rename_table("counts", "counts_by_series")
    op.create_table(
        "counts",
        sa.Column("minutes", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("minute", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("series", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("complete", sa.Boolean, primary_key=True),
        sa.Column("passed", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("not_evaluable", sa.Integer, nullable=False),
        sa.Column("errors", sa.Integer, nullable=False),
        sa.Column("score_sum", sa.Float, nullable=False),
        sa.Column("score_squares", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    copy = sa.text(
        f"INSERT INTO counts (minutes, minute, series, complete, {_SUMS}) SELECT minutes, minute, series, complete, "
        # By IN, so that no sums of other days are read.
        f"{_SUMS} FROM counts_by_series WHERE series IN (SELECT number FROM series) AND minutes = :minutes "
        "AND minute BETWEEN :first AND :last ORDER BY minute, series, complete"
    )
    connection = op.get_bind()
    days = sa.text(
        "SELECT DISTINCT minute FROM counts_by_series WHERE series IN (SELECT number FROM series) "
        f"AND minutes = {_DAY_MINUTES} ORDER BY 1"
    )
    for day in connection.execute(days).scalars().all():
        for minutes in (1, 60, _DAY_MINUTES):
            connection.execute(copy, {"minutes": minutes, "first": day, "last": day + _DAY_MINUTES - 1})
    op.drop_table("counts_by_series")
