"""Makes the tables and views of a new store."""

from sqlalchemy import Connection, text

from tracegrade.store.database import Database, ListViews
from tracegrade.store.schema.metadata import metadata

# The lists in a row of `traces`: the fields of an item, in their order, and the type of each in the view of that name.
_LISTS = {
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
    "agent_runs": {
        "span_id": "text",
        "agent": "text",
        "parent_span_id": "text",
        "session": "text",
        "model": "text",
        "prompt_hash": "text",
        "input_tokens": "bigint",
        "output_tokens": "bigint",
        "duration_ns": "bigint",
    },
}
# An evaluation counted as `other` has a list with its own names after its other fields.
_OWN_NAMES = ("service", "release", "agent")

_RESULTS = """
CREATE VIEW results AS
SELECT
    e.time AS time_ns,
    s.rule_id AS rule_id,
    s.evaluation AS evaluation,
    CASE e.outcome WHEN 0 THEN 'pass' WHEN 1 THEN 'fail' WHEN 2 THEN 'not_evaluable' ELSE 'error' END AS outcome,
    e.score AS score,
    s.threshold AS threshold,
    s.level AS level,
    coalesce(e.service, s.service) AS service,
    coalesce(e.agent, s.agent) AS agent,
    {trace_id} AS trace_id,
    CASE e.subject_kind
        WHEN 0 THEN 'agent' WHEN 1 THEN 'trace' WHEN 2 THEN 'session' ELSE 'tool-call' END AS subject_kind,
    e.subject_id AS subject_id,
    e.case_id AS case_id,
    s.evaluator AS evaluator,
    s.rule_hash AS rule_hash,
    coalesce(e.release, s.release) AS release,
    t.complete AS complete,
    t.close_reason AS close_reason,
    t.revision AS revision,
    t.session AS session,
    s.tenant AS tenant,
    s.run AS run,
    e.id AS id,
    s.tracegrade AS tracegrade
FROM evaluations AS e
JOIN series AS s ON s.number = e.series
JOIN traces AS t ON t.number = e.trace
"""


def create_tables(connection: Connection, database: Database) -> None:
    """Make all tables, indexes and views in a database that has none of them."""
    database.prepare_tables(connection)
    metadata.create_all(connection)
    # Here, since `postgresql_where` in the table would load that dialect for every command that reads SQLite.
    connection.execute(text("CREATE INDEX sessions_going_on ON traces (closed_ns) WHERE close_reason = 'turn'"))
    for name, fields in _LISTS.items():
        connection.execute(text(_view_of_list(name, fields, database.views)))
    connection.execute(text(_RESULTS.format(trace_id=database.views.hex.format("t.trace_id"))))


def _view_of_list(name: str, fields: dict[str, str], views: ListViews) -> str:
    """SQL for the view `name` over the list of that name in `traces`: trace, place in the list, then its fields."""
    own_names = _OWN_NAMES if name == "evaluations" else ()
    columns = [
        "t.number AS trace",
        f"{views.position} AS place",
        *(f"{views.field.format(index, kind)} AS {field}" for index, (field, kind) in enumerate(fields.items())),
        *(f"{views.own.format(len(fields), index)} AS {field}" for index, field in enumerate(own_names)),
    ]
    return f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM traces AS t CROSS JOIN {views.items.format(name)}"
