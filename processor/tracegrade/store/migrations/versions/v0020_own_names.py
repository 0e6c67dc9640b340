"""Results counted as `other` keep their own names: in the views, and in the count of traces by service.

A row of ``evaluations`` may have a list of its own service, release and agent after the fields that it had so far.
"""

import sqlalchemy as sa
from alembic import op

from tracegrade.store.migrations.versions.v0001_first import LISTS, RESULTS, hexadecimal, view_of_list

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_OWN = ("service", "release", "agent")


def upgrade() -> None:
    op.add_column("traces", sa.Column("traffic", sa.Integer))
    for name in ("results", "evaluations"):
        op.execute(f"DROP VIEW {name}")
    fields = LISTS["evaluations"]
    sqlite = op.get_bind().dialect.name == "sqlite"
    own = "json_extract(item.value, '$[{0}][{1}]')" if sqlite else "(item.value -> {0} ->> {1})"
    columns = ", ".join(f"{own.format(len(fields), place)} AS {name}" for place, name in enumerate(_OWN))
    op.execute(view_of_list("evaluations", fields).replace(" FROM traces", f", {columns} FROM traces"))
    results = RESULTS.replace("    e.id AS id\n", "    e.id AS id,\n    s.tracegrade AS tracegrade\n")
    for name in _OWN:
        results = results.replace(f"s.{name} AS {name}", f"coalesce(e.{name}, s.{name}) AS {name}")
    op.execute(results.format(trace_id=hexadecimal("t.trace_id")))
