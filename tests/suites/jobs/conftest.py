from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from build.engines import engine, postgresql, sqlite
from suites.build.jobs import Placed, placed

__all__ = ["engine", "postgresql", "sqlite"]


@pytest.fixture
def place(tmp_path: Path, engine: Engine) -> Iterator[Placed]:
    with ExitStack() as stack:
        yield lambda script, **more: stack.enter_context(placed(tmp_path, engine, script, **more))
