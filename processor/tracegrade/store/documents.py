"""Reads and writes records that are a row each: runs, experiments, suites, jobs, alerts, incidents, silences."""

import secrets
from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, insert, select, update

from tracegrade.store.schema import metadata

_Record = TypeVar("_Record")


def new_id() -> str:
    """An id for a record: 12 hex digits."""
    return secrets.token_hex(6)


def records(connection: Connection, kind: type[_Record], query: Select[Any]) -> list[_Record]:
    """The records that `query` selects, whose columns have the names of the fields of `kind`."""
    return [kind(**row._mapping) for row in connection.execute(query)]


def record(connection: Connection, kind: type[_Record], query: Select[Any]) -> _Record | None:
    """The first record that `query` selects; None when there is none."""
    row = connection.execute(query.limit(1)).first()
    return None if row is None else kind(**row._mapping)


def put(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Store a record in place of the one with the same primary key; False where there was none.

    Columns that `values` does not name stay as they were.
    """
    same = [column == values[column.name] for column in table.primary_key]
    if connection.execute(update(table).where(*same).values(**values)).rowcount:
        return True
    connection.execute(insert(table).values(**values))
    return False


def tenants_of(connection: Connection, name: str) -> list[str]:
    """The tenants that have records in the table of this name, in order."""
    tenant = metadata.tables[name].c.tenant
    return list(connection.execute(select(tenant).distinct().order_by(tenant)).scalars())
