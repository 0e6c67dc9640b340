"""One tenant's part of a store: connections on which every table and view holds the rows of one tenant alone.

A temporary view of its name stands before each table. So a query that names no tenant, and one that names another,
finds nothing of others; no query has to be careful.
"""

from collections.abc import Sequence
from typing import Any

from tracegrade.store.schema import metadata, trace_keys

_OWN = "tenant = {tenant}"
# Tables that have no column for the tenant; the rest of these, without a condition here, names nothing of anybody:
# `schema/` says of each why.
_CONDITIONS = {
    "counts": "series IN (SELECT number FROM {schema}.series WHERE tenant = {tenant})",
    "silences": "{label} = {tenant}",
}


def show_one_tenant(
    cursor: Any, tenant: str, schema: str, tables: set[str], views: Sequence[str], json_field: str
) -> None:
    """Let a new connection of the driver see one tenant's rows, as long as it lives.

    Args:
        cursor: of the connection, by which nothing was asked of our tables yet.
        tenant: whose.
        schema: where the tables are.
        tables: the names of the tables that are there.
        views: statements that make all views anew, as temporary ones, each after those that it reads.
        json_field: SQL for a text in a JSON column, with places for `str.format`: the column, and the name of the text.
    """
    quoted = "'" + tenant.replace("'", "''") + "'"
    for name in sorted(tables & {*metadata.tables, trace_keys.name}):
        if (condition := _condition(name)) is not None:
            where = condition.format(schema=schema, tenant=quoted, label=json_field.format("labels", "tenant"))
            cursor.execute(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM {schema}.{name} WHERE {where}")
    for text in views:  # as they were, over those above
        cursor.execute(text)


def _condition(table: str) -> str | None:
    is_owned = table == trace_keys.name or "tenant" in metadata.tables[table].c
    return _CONDITIONS.get(table, _OWN if is_owned else None)
