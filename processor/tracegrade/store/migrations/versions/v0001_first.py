"""The first tables, and the views that people read."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The lists in a row of `traces`: what each place of an item is called in the view of the same name, and its type.
LISTS = {
    "evaluations": {
        "id": "text",
        "series": "integer",
        "case_id": "text",
        "subject_kind": "integer",
        "subject_id": "text",
        "outcome": "integer",
        "score": "double precision",
        "time": "bigint",
    },
    "decisions": {
        "series": "integer",
        "subject_kind": "integer",
        "subject_id": "text",
        "kind": "integer",
        "outcome": "integer",
    },
    "tool_calls": {
        "name": "text",
        "agent": "text",
        "span_id": "text",
        "start_ns": "bigint",
        "end_ns": "bigint",
        "arguments_status": "text",
        "output_status": "text",
        "error_type": "text",
    },
}

RESULTS = """
CREATE VIEW results AS
SELECT
    e.time AS time_ns,
    s.rule_id AS rule_id,
    s.evaluation AS evaluation,
    CASE e.outcome WHEN 0 THEN 'pass' WHEN 1 THEN 'fail' WHEN 2 THEN 'not_evaluable' ELSE 'error' END AS outcome,
    e.score AS score,
    s.threshold AS threshold,
    s.level AS level,
    s.service AS service,
    s.agent AS agent,
    {trace_id} AS trace_id,
    CASE e.subject_kind
        WHEN 0 THEN 'agent' WHEN 1 THEN 'trace' WHEN 2 THEN 'session' ELSE 'tool-call' END AS subject_kind,
    e.subject_id AS subject_id,
    e.case_id AS case_id,
    s.evaluator AS evaluator,
    s.rule_hash AS rule_hash,
    s.release AS release,
    t.complete AS complete,
    t.close_reason AS close_reason,
    t.revision AS revision,
    t.session AS session,
    s.tenant AS tenant,
    s.run AS run,
    e.id AS id
FROM evaluations AS e
JOIN series AS s ON s.number = e.series
JOIN traces AS t ON t.number = e.trace
"""


def hexadecimal(column: str) -> str:
    """SQL for a binary column as lower-case hex text."""
    sqlite = op.get_bind().dialect.name == "sqlite"
    return f"lower(hex({column}))" if sqlite else f"encode({column}, 'hex')"


def view_of_list(name: str, fields: dict[str, str]) -> str:
    """SQL for the view `name` over the list of that name in `traces`: trace, place in the list, then its fields."""
    if op.get_bind().dialect.name == "sqlite":
        columns = [f"json_extract(item.value, '$[{place}]') AS {field}" for place, field in enumerate(fields)]
        trace_and_place = "t.number AS trace, item.key AS place"
        items = f"json_each(t.{name}) AS item"
    else:
        columns = [f"(item.value ->> {place})::{kind} AS {field}" for place, (field, kind) in enumerate(fields.items())]
        trace_and_place = "t.number AS trace, item.place - 1 AS place"
        items = f"jsonb_array_elements(t.{name}::jsonb) WITH ORDINALITY AS item (value, place)"
    return f"CREATE VIEW {name} AS SELECT {trace_and_place}, {', '.join(columns)} FROM traces AS t CROSS JOIN {items}"


def upgrade() -> None:
    op.create_table(
        "series",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.LargeBinary(16), nullable=False, unique=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("rule_id", sa.Text, nullable=False),
        sa.Column("rule_hash", sa.Text, nullable=False),
        sa.Column("evaluation", sa.Text, nullable=False),
        sa.Column("evaluator", sa.Text, nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("threshold", sa.Float),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("release", sa.Text),
        sa.Column("agent", sa.Text, nullable=False),
    )
    op.create_table(
        "traces",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("trace_id", sa.LargeBinary(16), nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("root_name", sa.Text, nullable=False),
        sa.Column("close_reason", sa.Text, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("cut_by", sa.Text),
        sa.Column("span_count", sa.Integer, nullable=False),
        sa.Column("call_count", sa.Integer, nullable=False),
        sa.Column("start_ns", sa.BigInteger, nullable=False),
        sa.Column("end_ns", sa.BigInteger, nullable=False),
        sa.Column("first_received_ns", sa.BigInteger, nullable=False),
        sa.Column("last_received_ns", sa.BigInteger, nullable=False),
        sa.Column("closed_ns", sa.BigInteger, nullable=False),
        sa.Column("first_position", sa.BigInteger, nullable=False),
        sa.Column("rule_set_hash", sa.Text, nullable=False),
        sa.Column("evaluations", sa.Text, nullable=False),
        sa.Column("decisions", sa.Text, nullable=False),
        sa.Column("tool_calls", sa.Text, nullable=False),
        sa.Column("judged", sa.LargeBinary, nullable=False),
        sa.Column("spans", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("trace_id", "tenant", "run", name="traces_by_id"),
    )
    op.create_table(
        "arrivals",
        sa.Column("minute", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first_number", sa.BigInteger, nullable=False),
        sa.Column("last_number", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "blocks",
        sa.Column("series", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("outcome", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "counts",
        sa.Column("series", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("minutes", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("minute", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("complete", sa.Boolean, primary_key=True),
        sa.Column("passed", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("not_evaluable", sa.Integer, nullable=False),
        sa.Column("errors", sa.Integer, nullable=False),
        sa.Column("score_sum", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "alerts",
        sa.Column("fingerprint", sa.LargeBinary(16), primary_key=True),
        sa.Column("starts_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("ends_ns", sa.BigInteger),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("rule_id", sa.Text, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("of", sa.Text, nullable=False),
        sa.Column("below", sa.Float, nullable=False),
        sa.Column("over_s", sa.Float, nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.Column("updated_ns", sa.BigInteger, nullable=False),
        sa.Column("notified", sa.JSON, nullable=False),
    )
    for name, fields in LISTS.items():
        op.execute(view_of_list(name, fields))
    op.execute(RESULTS.format(trace_id=hexadecimal("t.trace_id")))
