"""An empty store for each test: SQLite, and PostgreSQL beside it where there is one."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, make_url, text

from build import store_with
from tracegrade.store import schema
from tracegrade.store.open import open_store
from tracegrade.store.partitions import SMALLEST, partitions


def _postgresql() -> str:
    """The URL of the database for these tests, "" without one; of several workers at a time, each has its own."""
    named = os.environ.get("TRACEGRADE_TEST_POSTGRESQL", "") if find_spec("psycopg") else ""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if not named or worker is None:
        return named
    url = make_url(named)
    if url.database is not None and url.database.endswith(f"_{worker}"):
        return named  # in a process that a test started
    own = f"{url.database}_{worker}"
    server = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {own} WITH (FORCE)"))
        connection.execute(text(f"CREATE DATABASE {own}"))
    os.environ["TRACEGRADE_TEST_POSTGRESQL"] = url.set(database=own).render_as_string(hide_password=False)
    return os.environ["TRACEGRADE_TEST_POSTGRESQL"]


POSTGRESQL = _postgresql()
BACKENDS = ["sqlite", "postgresql"] if POSTGRESQL else ["sqlite"]

needs_postgresql = pytest.mark.skipif(
    not POSTGRESQL,
    reason="needs pip install -e '.[postgresql]' and TRACEGRADE_TEST_POSTGRESQL=postgresql+psycopg://... (is emptied)",
)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    engine = open_store(store_with(tmp_path))
    yield engine
    engine.dispose()


@pytest.fixture
def postgresql() -> Iterator[Engine]:
    engine = open_store(POSTGRESQL)
    with engine.begin() as connection:
        for table in (*schema.metadata.sorted_tables, schema.trace_keys):
            connection.execute(table.delete())
        _with_one_part(connection)
    yield engine
    engine.dispose()


def _with_one_part(connection: Connection) -> None:
    """Earlier tests dropped partitions, or made small ones; the first trace has the number 1 again."""
    found = partitions(connection)
    if [part.first for part in found] != [1] or found[0].end <= SMALLEST:
        for part in found:
            connection.execute(text(f"DROP TABLE {part.table}"))
        connection.execute(text(f"CREATE TABLE traces_1 PARTITION OF traces FOR VALUES FROM (1) TO ({SMALLEST + 1})"))
    connection.execute(text(f"ALTER SEQUENCE {schema.NUMBERS} RESTART"))


@pytest.fixture(params=BACKENDS)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Whatever holds for one holds for the other."""
    engine: Engine = request.getfixturevalue(request.param)
    return engine


def without_tables(url: str) -> None:
    """Empty a PostgreSQL database, so that a store is made anew in it."""
    engine = open_store(url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
