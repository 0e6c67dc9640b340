"""Runs and experiments: results that replay stored, beside those that were judged live."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("begun_ns", sa.BigInteger, nullable=False),
        sa.Column("baseline", sa.Text),
        sa.Column("last_number", sa.Integer, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("experiment", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("gate", sa.Text),
        sa.Column("begun_ns", sa.BigInteger, nullable=False),
        sa.Column("written_ns", sa.BigInteger, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("selection", sa.JSON, nullable=False),
        sa.Column("rule_set_hash", sa.Text, nullable=False),
        sa.Column("judgement_hash", sa.Text, nullable=False),
        sa.Column("settings_hash", sa.Text, nullable=False),
        sa.Column("rules", sa.JSON, nullable=False),
        sa.Column("tracegrade", sa.Text, nullable=False),
        sa.Column("git_revision", sa.Text),
        sa.Column("releases", sa.JSON, nullable=False),
        sa.Column("prompt_hash", sa.Text),
        sa.Column("prompt_count", sa.Integer, nullable=False),
        sa.Column("first_number", sa.BigInteger),
        sa.Column("last_number", sa.BigInteger),
        sa.Column("emptied", sa.Boolean, nullable=False),
    )
    op.create_index("runs_by_experiment", "runs", ["tenant", "experiment"])
