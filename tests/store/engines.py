"""An empty store for each test: SQLite, and PostgreSQL beside it where there is one."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from tracegrade.store import schema
from tracegrade.store.open import checkpoint, open_store

POSTGRESQL = os.environ.get("TRACEGRADE_TEST_POSTGRESQL", "") if find_spec("psycopg") else ""
BACKENDS = ["sqlite", "postgresql"] if POSTGRESQL else ["sqlite"]

needs_postgresql = pytest.mark.skipif(
    not POSTGRESQL,
    reason="needs pip install -e '.[postgresql]' and TRACEGRADE_TEST_POSTGRESQL=postgresql+psycopg://... (is emptied)",
)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without results; copying it is ten times as quick as making one."""
    path = tmp_path_factory.mktemp("empty") / "tracegrade.db"
    engine = open_store(f"sqlite:///{path}")
    checkpoint(engine)
    engine.dispose()
    return path


@pytest.fixture
def sqlite(tmp_path: Path, empty_store: Path) -> Iterator[Engine]:
    engine = open_store(f"sqlite:///{shutil.copy(empty_store, tmp_path / 'tracegrade.db')}")
    yield engine
    engine.dispose()


@pytest.fixture
def postgresql() -> Iterator[Engine]:
    engine = open_store(POSTGRESQL)
    with engine.begin() as connection:
        for table in schema.metadata.sorted_tables:
            connection.execute(table.delete())
        connection.execute(text(f"ALTER SEQUENCE {schema.NUMBERS} RESTART"))
    yield engine
    engine.dispose()


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
