import pytest
from sqlalchemy import Engine

from build.engines import engine, postgresql, sqlite
from build.loop_stage import Stage, plain_look

__all__ = ["engine", "postgresql", "sqlite"]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.alert.scan.look_bound", plain_look)


@pytest.fixture
def stage(engine: Engine, plain: None) -> Stage:
    return Stage(engine)


@pytest.fixture
def detecting(engine: Engine) -> Stage:
    """With the detectors as they are."""
    return Stage(engine)
