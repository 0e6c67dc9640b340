"""Ids of experiments, the suite's own experiment, and what became of a baseline that was pinned; the jobs of runs."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("experiments", sa.Column("id", sa.Text, nullable=False, server_default=""))
    op.add_column("experiments", sa.Column("own", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("experiments", sa.Column("baseline_entry", sa.Text))
    op.add_column("experiments", sa.Column("baseline_note", sa.Text))
    op.add_column("runs", sa.Column("job", sa.Text))
    op.add_column("runs", sa.Column("seen_ns", sa.BigInteger))
    experiments = sa.table("experiments", sa.column("tenant"), sa.column("name"), sa.column("id"))
    runs = sa.table("runs", sa.column("tenant"), sa.column("name"), sa.column("selection", sa.JSON), sa.column("job"))
    connection = op.get_bind()
    for tenant, name in connection.execute(sa.select(experiments.c.tenant, experiments.c.name)).all():
        same = (experiments.c.tenant == tenant, experiments.c.name == name)
        connection.execute(sa.update(experiments).where(*same).values(id=secrets.token_hex(6)))
    for tenant, name, selection in connection.execute(sa.select(runs.c.tenant, runs.c.name, runs.c.selection)).all():
        if isinstance(job := (selection or {}).get("job"), str):
            same = (runs.c.tenant == tenant, runs.c.name == name)
            connection.execute(sa.update(runs).where(*same).values(job=job))
    op.create_index("experiments_by_id", "experiments", ["tenant", "id"], unique=True)
    op.create_index("runs_by_job", "runs", ["tenant", "job"])
