"""Many rows at once: SQLite takes them one by one, PostgreSQL in one statement or by COPY."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Connection, Float, Integer, LargeBinary, SmallInteger, Table
from sqlalchemy.exc import DBAPIError

_Rows = Sequence[tuple[Any, ...]]

# The first that fits: BigInteger and SmallInteger are Integers, too.
_TYPES = (
    (BigInteger, "int8"),
    (SmallInteger, "int2"),
    (Integer, "int4"),
    (Boolean, "bool"),
    (Float, "float8"),
    (LargeBinary, "bytea"),
)


def insert_rows(connection: Connection, table: Table, rows: _Rows) -> None:
    """Insert `rows`, which have a value for each column of `table`, in order.

    Through the driver: SQLAlchemy's insert() takes the same rows as dicts, in twice the time.

    Raises:
        DBAPIError: the database refused them.
        TypeError: a number is too large for its column.
    """
    if not rows:
        return
    if connection.dialect.name != "postgresql":
        connection.exec_driver_sql(_insert(table), list(rows))
        return
    statement = f"COPY {table.name} ({_names(table)}) FROM STDIN (FORMAT BINARY)"
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([_type(column) for column in table.columns])
            for row in rows:
                copy.write_row(row)
    except OverflowError as error:
        raise TypeError(f"{table.name}: a number is too large for its column: {error}") from error
    except connection.dialect.loaded_dbapi.Error as error:
        # As SQLAlchemy's own statements raise it: whoever stores tells by that what may pass.
        raise DBAPIError.instance(
            statement, None, error, connection.dialect.loaded_dbapi.Error, connection_invalidated=bool(driver.closed)
        ) from error


def insert_or_change(
    connection: Connection, table: Table, rows: _Rows, changes: str, returning: str = ""
) -> Sequence[Any]:
    """Insert `rows`; where the primary key is stored already, set `changes`, in which ``excluded`` is the new row.

    No key may come twice. Several writers must give rows in the same order: each waits for the rows of the other.

    Returns:
        Of PostgreSQL, the columns named by `returning` of each row that was inserted or changed.
    """
    if not rows:
        return ()
    if connection.dialect.name != "postgresql":
        connection.exec_driver_sql(f"{_insert(table)} {_change(table)} {changes}", list(rows))
        return ()
    values = tuple(list(of_column) for of_column in zip(*rows, strict=True))
    statement = f"{_insert_lists(table)} {_change(table)} {changes}"
    if not returning:
        connection.exec_driver_sql(statement, values)
        return ()
    return connection.exec_driver_sql(f"{statement} RETURNING {returning}", values).all()


# There are few tables, and every batch of results is written to several.
@cache
def _insert(table: Table) -> str:
    return f"INSERT INTO {table.name} ({_names(table)}) VALUES ({', '.join(['?'] * len(table.columns))})"


@cache
def _insert_lists(table: Table) -> str:
    lists = ", ".join(f"%s::{_type(column)}[]" for column in table.columns)
    return f"INSERT INTO {table.name} ({_names(table)}) SELECT * FROM unnest({lists})"


@cache
def _change(table: Table) -> str:
    key = ", ".join(column.name for column in table.primary_key.columns)
    return f"ON CONFLICT ({key}) DO UPDATE SET"


def _names(table: Table) -> str:
    return ", ".join(column.name for column in table.columns)


def _type(column: Column[Any]) -> str:
    return next((name for kind, name in _TYPES if isinstance(column.type, kind)), "text")
