"""Errors of a store, and what they tell: whether it is away, unreadable, or refused one statement."""

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from tracegrade.model.errors import TraceGradeError

_UNREADABLE = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
}

# Of PostgreSQL's states (SQLSTATE), by their beginning: the server can do nothing at present, whatever it is asked.
_REFUSES_FOR_NOW = (
    "25006",  # only reads: a standby, or one that was set so because its disk was filling
    "53",  # no memory, no disk, too many connections
    "55",  # not in a state for it
    "57",  # shut down, cancelled
    "58",  # an error of its system
)

STORE_ERRORS = (SQLAlchemyError, sqlite3.Error)
"""What any use of a store may raise: it is locked, full, damaged or away, or refuses a statement."""


class StoreError(TraceGradeError):
    """The store cannot be opened or read; the message says what to do."""


class StoreUnavailable(StoreError):
    """A server that does not answer (yet), or a file that cannot be read: a later attempt may succeed."""


def is_unreadable(error: BaseException) -> bool:
    """Tell whether SQLite cannot read or write its file: damaged, not a database, read-only, or a failing disk."""
    return sqlite_code(error) in _UNREADABLE


def is_away(error: BaseException) -> bool:
    """Tell whether the store is locked, or its server away, or refuses for now: the same attempt may succeed later."""
    if refuses_for_now(error):
        return True
    if isinstance(getattr(error, "orig", None) or error, sqlite3.Error):
        return sqlite_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return isinstance(error, OperationalError | InterfaceError) or (
        isinstance(error, DBAPIError) and error.connection_invalidated
    )


def cannot_be_used(error: BaseException) -> bool:
    """Tell whether the store itself, not the question, is the cause: away, locked, unreadable, or used by too many."""
    return is_away(error) or is_unreadable(error) or isinstance(error, PoolTimeout)


def refuses_for_now(error: BaseException) -> bool:
    """Tell whether a PostgreSQL server can do nothing at present, whatever it is asked."""
    return state_of(error).startswith(_REFUSES_FOR_NOW)


def state_of(error: BaseException) -> str:
    """PostgreSQL's state (SQLSTATE) of an error, five characters; "" of SQLite, and of what no server said."""
    return str(getattr(getattr(error, "orig", None) or error, "sqlstate", None) or "")


def sqlite_code(error: BaseException) -> int | None:
    """SQLite's primary result code of an error; None where SQLite did not raise it."""
    code = getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def cause_of(error: Exception) -> str:
    """The database's own words, without the statement that it refused."""
    return str(getattr(error, "orig", None) or error).strip()
