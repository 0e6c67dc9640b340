"""The judge's reads wait for a store that is locked or away, and for nothing else."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError, ProgrammingError, SQLAlchemyError

from build.judged_traces import judged, trace_id
from tracegrade.pipeline.heartbeat import Heartbeat, read_heartbeat
from tracegrade.serve.judging import stored_traces
from tracegrade.serve.judging.stored_traces import StoredTraces
from tracegrade.store.open import open_store
from tracegrade.store.write import StoreWriter
from tracegrade.telemetry.conditions import Conditions


def _sqlite(code: int) -> OperationalError:
    cause = sqlite3.OperationalError("the store's words")
    cause.sqlite_errorcode = code
    return OperationalError("SELECT", {}, cause)


WAITS = {
    "locked": _sqlite(sqlite3.SQLITE_BUSY),
    "locked by a schema": _sqlite(sqlite3.SQLITE_LOCKED | 1 << 8),
    "server away": OperationalError("SELECT", {}, Exception("server closed the connection unexpectedly")),
    "connection lost": InterfaceError("SELECT", {}, Exception("connection is closed"), connection_invalidated=True),
}
ENDS = {
    "damaged": _sqlite(sqlite3.SQLITE_CORRUPT),
    "no tables": ProgrammingError("SELECT", {}, Exception("relation does not exist")),
    "another file": _sqlite(sqlite3.SQLITE_ERROR),
}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}")
    StoreWriter(engine).write([judged(1)])
    return engine


def reads(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch, error: SQLAlchemyError, wait: Callable[[float], bool]
) -> tuple[int, Conditions]:
    """How many closed traces are found where the first two reads raise, and the conditions afterwards."""
    conditions, left, read = Conditions(), [error, error], stored_traces.closed_traces

    def refused(*arguments: object) -> object:
        if left:
            raise left.pop()
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stored_traces, "closed_traces", refused)
    heartbeat = Heartbeat(folder / "heartbeat")
    heartbeat.working(b"t" * 16, "rule")

    def watched(seconds: float) -> bool:
        beat = read_heartbeat(folder / "heartbeat")
        assert beat is not None
        assert (beat.trace_id, beat.rule_id) == (None, None), "the trace is not to blame"
        assert conditions.holds("store_unavailable", "reading")
        return wait(seconds)

    stored = StoredTraces(lambda: engine, heartbeat, conditions=conditions, wait=watched)
    try:
        found = stored.closed_traces([("default", bytes.fromhex(trace_id(1)))])
        beat = read_heartbeat(folder / "heartbeat")
        assert beat is not None
        assert beat.rule_id == "rule"
        return len(found), conditions
    finally:
        stored.close()
        heartbeat.close()


def test_reads_wait_while_the_store_is_locked_or_away(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = []
    for name, error in WAITS.items():
        with monkeypatch.context() as patched:
            found, conditions = reads(engine, tmp_path, patched, error, lambda seconds: False)
        if (found, conditions.current()) != (1, []):
            failures.append(name)
    assert not failures
    for error in ENDS.values():
        with monkeypatch.context() as patched, pytest.raises(type(error)):
            reads(engine, tmp_path, patched, error, lambda seconds: False)
    with pytest.raises(OperationalError):  # told to stop meanwhile
        reads(engine, tmp_path, monkeypatch, WAITS["locked"], lambda seconds: True)
