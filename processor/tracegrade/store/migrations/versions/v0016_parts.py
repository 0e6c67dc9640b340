"""PostgreSQL: ``traces`` in parts, which are dropped as a whole when they are old; trace ids in a table of their own.

What is stored stays where it is, as the first part: only its rows' ids are copied. All in one transaction: it is done,
or not begun.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_VIEWS = ("results", "evaluations", "decisions", "tool_calls", "agent_runs")
_FIRST_SIZE = 65_536


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    op.create_table(
        "trace_keys",
        sa.Column("trace_id", sa.LargeBinary, primary_key=True),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("run", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("replaced", sa.BigInteger),
    )
    op.execute(
        "INSERT INTO trace_keys (trace_id, tenant, run, number, revision) "
        "SELECT trace_id, tenant, run, number, revision FROM traces ORDER BY trace_id, tenant, run"
    )
    shown = {
        name: connection.execute(sa.text(f"SELECT pg_get_viewdef('{name}'::regclass)")).scalar_one() for name in _VIEWS
    }
    for name in _VIEWS:
        op.execute(f"DROP VIEW {name}")
    op.rename_table("traces", "traces_so_far")
    op.execute("ALTER TABLE traces_so_far DROP CONSTRAINT traces_by_id")
    op.execute("ALTER INDEX traces_pkey RENAME TO traces_so_far_pkey")
    op.execute("ALTER INDEX sessions_going_on RENAME TO traces_so_far_closed_ns_idx")
    for name in ("judged", "spans"):  # compressed already
        op.execute(f"ALTER TABLE traces_so_far ALTER COLUMN {name} SET STORAGE EXTERNAL")
    known = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
    if connection.execute(sa.text(known)).scalar():
        for name in ("evaluations", "decisions", "tool_calls", "agent_runs", "members"):
            op.execute(f"ALTER TABLE traces_so_far ALTER COLUMN {name} SET COMPRESSION lz4")
    as_so_far = "LIKE traces_so_far INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION"
    op.execute(f"CREATE TABLE traces ({as_so_far}) PARTITION BY RANGE (number)")
    op.execute("ALTER TABLE traces ADD CONSTRAINT traces_pkey PRIMARY KEY (number)")
    op.execute("CREATE INDEX sessions_going_on ON traces (closed_ns) WHERE close_reason = 'turn'")
    drawn = "(SELECT last_value FROM trace_numbers)"
    highest = f"SELECT greatest(max(number), {drawn}) FROM traces_so_far HAVING count(*) > 0"
    if last := connection.execute(sa.text(highest)).scalar():
        op.execute(f"ALTER TABLE traces ATTACH PARTITION traces_so_far FOR VALUES FROM (MINVALUE) TO ({last + 1})")
    else:
        op.execute("DROP TABLE traces_so_far")
    # The others makes `store.partitions`, when they are needed.
    first = (last or 0) + 1
    op.execute(f"CREATE TABLE traces_{first} PARTITION OF traces FOR VALUES FROM ({first}) TO ({first + _FIRST_SIZE})")
    for name in reversed(_VIEWS):
        op.execute(f"CREATE VIEW {name} AS {shown[name]}")
    op.execute("ANALYZE trace_keys")
