"""Makes the tables and views of a new store."""

from sqlalchemy import Connection, MetaData, Table, UniqueConstraint, text
from sqlalchemy.schema import CreateTable

from tracegrade.store.schema.metadata import metadata, postgresql_metadata
from tracegrade.store.schema.result_tables import traces

_FIRST_PARTITION_SIZE = 65_536

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


def create_tables(connection: Connection) -> None:
    """Make all tables, indexes and views in a database that has none of them."""
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        _create_partitioned(connection, traces)
        postgresql_metadata.create_all(connection)
        connection.execute(text("CREATE SEQUENCE trace_numbers"))
    metadata.create_all(connection)
    # Here, since `postgresql_where` in the table would load that dialect for every command that reads SQLite.
    connection.execute(text("CREATE INDEX sessions_going_on ON traces (closed_ns) WHERE close_reason = 'turn'"))
    if not is_sqlite:
        connection.execute(
            text(f"CREATE TABLE traces_1 PARTITION OF traces FOR VALUES FROM (1) TO ({1 + _FIRST_PARTITION_SIZE})")
        )
    for name, fields in _LISTS.items():
        connection.execute(text(_view_of_list(name, fields, is_sqlite)))
    trace_id = "lower(hex(t.trace_id))" if is_sqlite else "encode(t.trace_id, 'hex')"
    connection.execute(text(_RESULTS.format(trace_id=trace_id)))


def _create_partitioned(connection: Connection, table: Table) -> None:
    """Make `table` on PostgreSQL, in partitions by its number, which is its only unique key."""
    partitioned = table.to_metadata(MetaData())
    partitioned.constraints -= {each for each in partitioned.constraints if isinstance(each, UniqueConstraint)}
    connection.execute(
        text(f"{CreateTable(partitioned).compile(dialect=connection.dialect)} PARTITION BY RANGE (number)")
    )
    for name in ("judged", "spans"):  # compressed already
        connection.execute(text(f"ALTER TABLE {table.name} ALTER COLUMN {name} SET STORAGE EXTERNAL"))
    known = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
    if connection.execute(text(known)).scalar():
        for name in (*_LISTS, "members"):
            connection.execute(text(f"ALTER TABLE {table.name} ALTER COLUMN {name} SET COMPRESSION lz4"))


def _view_of_list(name: str, fields: dict[str, str], is_sqlite: bool) -> str:
    """SQL for the view `name` over the list of that name in `traces`: trace, place in the list, then its fields."""
    own_names = _OWN_NAMES if name == "evaluations" else ()
    if is_sqlite:
        value, own = "json_extract(item.value, '$[{0}]')", "json_extract(item.value, '$[{0}][{1}]')"
        place, items = "item.key", f"json_each(t.{name}) AS item"
    else:
        value, own = "(item.value ->> {0})::{1}", "(item.value -> {0} ->> {1})"
        place = "item.place - 1"
        items = f"jsonb_array_elements(t.{name}::jsonb) WITH ORDINALITY AS item (value, place)"
    columns = [
        "t.number AS trace",
        f"{place} AS place",
        *(f"{value.format(index, kind)} AS {field}" for index, (field, kind) in enumerate(fields.items())),
        *(f"{own.format(len(fields), index)} AS {field}" for index, field in enumerate(own_names)),
    ]
    return f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM traces AS t CROSS JOIN {items}"
