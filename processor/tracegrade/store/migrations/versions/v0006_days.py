"""Outcomes by the day.

Added up from those by the hour, of which a month of ten million results has 210,000: a second, however many results.
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # By IN, or SQLite would read the sums by minute too, which are 60 times as many.
    op.execute(
        "INSERT INTO counts (series, minutes, minute, complete, passed, failed, not_evaluable, errors, score_sum, "
        "score_squares) SELECT series, 1440, minute - minute % 1440, complete, sum(passed), sum(failed), "
        "sum(not_evaluable), sum(errors), sum(score_sum), sum(score_squares) FROM counts "
        "WHERE series IN (SELECT number FROM series) AND minutes = 60 GROUP BY 1, 3, 4"
    )
