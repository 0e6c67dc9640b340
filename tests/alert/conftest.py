import pytest
from sqlalchemy import Engine

from alert.loop_stage import Stage
from store.engines import empty_store, engine, postgresql, sqlite

__all__ = ["empty_store", "engine", "postgresql", "sqlite"]


@pytest.fixture
def stage(engine: Engine) -> Stage:
    return Stage(engine)
