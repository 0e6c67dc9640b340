"""One tenant's part of a store: connections on which every table and view holds the rows of one tenant alone.

A temporary view of its name stands before each table. So a query that names no tenant, and one that names another,
finds nothing of others; no query has to be careful.
"""

from typing import Any

from tracegrade.store.schema import metadata, trace_keys

_OWN = "tenant = {tenant}"
_OF_SERIES = "series IN (SELECT number FROM {schema}.series WHERE tenant = {tenant})"

# What has no column for the tenant; the rest of these tables, without one here, names nothing of anybody:
# `schema/` says of each why.
_CONDITIONS: dict[str, str | dict[str, str]] = {
    "counts": _OF_SERIES,
    "silences": {
        "sqlite": "json_extract(labels, '$.tenant') = {tenant}",
        "postgresql": "labels ->> 'tenant' = {tenant}",
    },
}


def show_one_tenant(connection: Any, dialect: str, tenant: str) -> None:
    """Let a new connection of the driver see one tenant's rows, as long as it lives.

    Args:
        connection: of the driver; nothing was asked by it yet.
        dialect: ``sqlite`` or ``postgresql``.
        tenant: whose.
    """
    quoted = "'" + tenant.replace("'", "''") + "'"
    cursor = connection.cursor()
    schema, tables, views = _sqlite(cursor) if dialect == "sqlite" else _postgresql(cursor)
    for name in sorted(tables & {*metadata.tables, trace_keys.name}):
        if (condition := _condition(name, dialect)) is not None:
            where = condition.format(schema=schema, tenant=quoted)
            cursor.execute(f"CREATE TEMPORARY VIEW {name} AS SELECT * FROM {schema}.{name} WHERE {where}")
    for text in views:  # as they were, over those above
        cursor.execute(text)
    if dialect == "postgresql":  # it would write through a view
        cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    cursor.close()


def _condition(table: str, dialect: str) -> str | None:
    found = _CONDITIONS.get(table)
    if found is None:
        return _OWN if table == trace_keys.name or "tenant" in metadata.tables[table].c else None
    return found if isinstance(found, str) else found[dialect]


def _sqlite(cursor: Any) -> tuple[str, set[str], list[str]]:
    """Where tables are, which there are, and the texts of the views, each after those that it reads."""
    cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {name for (name,) in cursor.fetchall()}
    cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'view' ORDER BY rowid")
    return "main", tables, [text.replace("CREATE VIEW", "CREATE TEMPORARY VIEW", 1) for (text,) in cursor.fetchall()]


def _postgresql(cursor: Any) -> tuple[str, set[str], list[str]]:
    """As `_sqlite`; the views are read first: later, their texts would name each table with its schema."""
    cursor.execute("SELECT quote_ident(current_schema()), current_schema()")
    ((schema, plain),) = cursor.fetchall()
    cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (plain,))
    tables = {name for (name,) in cursor.fetchall()}
    cursor.execute(
        "SELECT relname, pg_get_viewdef(oid) FROM pg_class WHERE relkind = 'v' AND relnamespace = %s::regnamespace "
        "ORDER BY oid",
        (schema,),
    )
    return schema, tables, [f"CREATE TEMPORARY VIEW {name} AS {text}" for name, text in cursor.fetchall()]
