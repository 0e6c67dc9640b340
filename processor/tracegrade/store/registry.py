"""The databases that can hold a store, by SQLAlchemy's name."""

from sqlalchemy import Connection, Engine

from tracegrade.store.database import Database
from tracegrade.store.postgresql import PostgreSQL
from tracegrade.store.sqlite import SQLite

DATABASES: dict[str, Database] = {"sqlite": SQLite(), "postgresql": PostgreSQL()}


def database(of: Connection | Engine) -> Database:
    """The database behind a connection or an engine."""
    return DATABASES[of.dialect.name]
