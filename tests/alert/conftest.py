import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tracegrade.store.open import checkpoint, open_store


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without results; copying it is ten times as quick as making one."""
    path = tmp_path_factory.mktemp("empty") / "tracegrade.db"
    engine = open_store(f"sqlite:///{path}")
    checkpoint(engine)
    engine.dispose()
    return path


@pytest.fixture
def engine(tmp_path: Path, empty_store: Path) -> Iterator[Engine]:
    engine = open_store(f"sqlite:///{shutil.copy(empty_store, tmp_path / 'tracegrade.db')}")
    yield engine
    engine.dispose()
