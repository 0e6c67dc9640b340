"""Stores with results in them."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import URL, Dialect, Engine, create_engine
from sqlalchemy.util import LRUCache

from tracegrade.model.trace_result import TraceResult
from tracegrade.store import sqlite
from tracegrade.store.open import checkpoint, open_store
from tracegrade.store.write import StoreWriter


def store_with(folder: Path, *results: TraceResult) -> str:
    """Write results into the SQLite store of a data folder; make the store first where there is none.

    Returns:
        The URL of the store.
    """
    path = folder / "tracegrade.db"
    url = f"sqlite:///{path}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_empty())
    if results:
        engine = open_store(url)
        StoreWriter(engine).write(results)
        engine.dispose()
    return url


def give_up_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stores of SQLite that are opened from now on wait half a second for another's lock, and not five."""
    pragmas = tuple(pragma.replace("busy_timeout=5000", "busy_timeout=500") for pragma in sqlite._PRAGMAS)
    assert pragmas != sqlite._PRAGMAS
    monkeypatch.setattr(sqlite, "_PRAGMAS", pragmas)


@cache
def _shared() -> tuple[Dialect, LRUCache[Any, Any]]:
    with create_engine("sqlite://").connect() as connection:
        return connection.dialect, LRUCache(2000)


def _create_engine(url: URL, **options: Any) -> Engine:
    """Create an engine that shares compiled statements, which each store of a test would compile anew."""
    engine = create_engine(url, **options)
    if engine.dialect.name == "sqlite":
        engine.dialect, compiled = _shared()
        engine.update_execution_options(compiled_cache=compiled)
    return engine


sqlite.create_engine = _create_engine


@cache
def _empty() -> bytes:
    """An empty store's file: copying it costs a thousandth of making one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tracegrade.db"
        engine = open_store(f"sqlite:///{path}")
        checkpoint(engine)
        engine.dispose()
        return path.read_bytes()
