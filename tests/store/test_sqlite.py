"""A SQLite file gives the space of what was deleted back to the disk."""

from pathlib import Path

from sqlalchemy import Engine

from build.judged_traces import START_NS, judged, tool_call
from tracegrade.store import sqlite as module
from tracegrade.store.database import FreeSpace
from tracegrade.store.delete import delete_older
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import checkpoint, open_store, reading
from tracegrade.store.registry import database
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.salvage import damage_of
from tracegrade.store.write import StoreWriter

KEPT = 20


def emptied(engine: Engine) -> None:
    """Many traces, of which all but `KEPT` were deleted."""
    traces = [judged(number, tool_calls=[tool_call(name=f"tool-{number}")]) for number in range(500)]
    StoreWriter(engine).write(traces)
    while delete_older(engine, traces[-KEPT].trace.first_received_ns):
        pass
    checkpoint(engine)


def stored(engine: Engine) -> int:
    with reading(engine) as connection:
        return len(trace_heads(connection, ResultFilter(), 1000))


def space_of(engine: Engine) -> FreeSpace:
    with reading(engine) as connection:
        found = database(connection).free_space(connection)
    assert found is not None
    return found


def test_what_was_deleted_makes_the_file_smaller_in_small_steps(sqlite: Engine, tmp_path: Path) -> None:
    path = tmp_path / "tracegrade.db"
    emptied(sqlite)
    before = space_of(sqlite)
    assert before.surplus_pages
    assert path.stat().st_size == before.size_bytes
    steps = []
    while given := database(sqlite).give_back(sqlite):
        steps.append(given)
    after = space_of(sqlite)
    assert not after.surplus_pages
    assert after.free_bytes > 0, "what comes next takes it"
    assert path.stat().st_size == after.size_bytes < before.size_bytes - 0.8 * before.free_bytes
    assert max(steps) <= module._PAGES
    assert stored(sqlite) == KEPT
    assert damage_of(path) is None


def test_a_reader_of_before_goes_on_reading_all(sqlite: Engine, tmp_path: Path) -> None:
    StoreWriter(sqlite).write([judged(number) for number in range(500)])
    other = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}", read_only=True)
    with reading(other) as connection:
        first = trace_heads(connection, ResultFilter(), 1)
        while delete_older(sqlite, START_NS * 2):
            pass
        while database(sqlite).give_back(sqlite):
            pass
        assert len(trace_heads(connection, ResultFilter(), 1000)) == 500
        assert trace_heads(connection, ResultFilter(), 1) == first
    assert stored(other) == 0
    other.dispose()
