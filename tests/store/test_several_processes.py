"""Several processes on one PostgreSQL: who leads, how far the slowest judge is, and the turns of sessions."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text

from build.engines import POSTGRESQL, needs_postgresql
from build.judged_traces import judged, trace_id
from tracegrade.assemble.share import share_of
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import RunSummary, TraceResult
from tracegrade.store import several_processes
from tracegrade.store.delete import delete_everywhere
from tracegrade.store.open import open_store
from tracegrade.store.schema import session_turns
from tracegrade.store.several_processes import Judges, Leader, SessionTurn, forget_turns, waiting_turns
from tracegrade.store.write import StoreWriter
from waiting import eventually

_LEADS_FOR_EVER = f"""
import asyncio
from tracegrade.store.several_processes import Leader
from tracegrade.store.open import open_store
found = Leader(open_store({POSTGRESQL!r}))
found.poll()
print(found.leads, flush=True)
asyncio.run(found.run(asyncio.Event()))
"""


@contextmanager
def another_process() -> Iterator[subprocess.Popen[str]]:
    """One that takes part, and has said on its output whether it leads."""
    process = subprocess.Popen([sys.executable, "-c", _LEADS_FOR_EVER], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_the_one_process_on_a_sqlite_leads(sqlite: Engine) -> None:
    found = Leader(sqlite)
    assert found.leads
    found.poll()
    assert found.leads


@needs_postgresql
def test_when_the_leader_is_killed_another_process_leads(postgresql: Engine) -> None:
    with another_process() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        found = Leader(postgresql)
        found.poll()
        assert not found.leads
        os.kill(process.pid, signal.SIGKILL)

        def leads() -> bool:
            found.poll()
            return found.leads

        eventually(leads, "the lock of the killed one")
    found.resign()


@needs_postgresql
def test_who_resigns_lets_another_one_lead(postgresql: Engine) -> None:
    other = open_store(POSTGRESQL)
    first, second = Leader(postgresql), Leader(other)
    for each in (first, second, first, second):
        each.poll()
    assert (first.leads, second.leads) == (True, False)
    first.resign()
    second.poll()
    assert (first.leads, second.leads) == (False, True)
    second.resign()
    other.dispose()


@needs_postgresql
def test_who_loses_its_connection_leads_no_more_and_may_lead_again(postgresql: Engine) -> None:
    found = Leader(postgresql)
    found.poll()
    assert found.leads
    with postgresql.connect() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        assert connection.execute(text(ended)).scalars().all() == [True]
    found.poll()
    assert not found.leads
    found.poll()
    assert found.leads
    found.resign()


@needs_postgresql
def test_who_cannot_look_for_long_leads_no_more(postgresql: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Leader(postgresql)
    found.poll()
    monkeypatch.setattr(several_processes, "_TRUSTED_S", 0.0)
    assert not found.leads
    found.resign()


def test_the_one_judge_on_a_sqlite_is_as_far_as_it_is(sqlite: Engine) -> None:
    one = Judges(sqlite, "one", lambda: 7)
    one.note()
    assert one.stored_to_ns() == 7


@needs_postgresql
def test_several_are_as_far_as_the_slowest_that_is_still_heard_of(postgresql: Engine) -> None:
    with postgresql.begin() as connection:
        connection.execute(text("DELETE FROM judges"))
    slow_to_ns = [3]
    fast, slow = Judges(postgresql, "fast", lambda: 9), Judges(postgresql, "slow", lambda: slow_to_ns[0])
    assert fast.stored_to_ns() == 9, "nobody else was heard of"
    Judges(postgresql, "just started", lambda: 0).note()
    assert fast.stored_to_ns() == 9, "of one that does not know yet, nothing is known"
    slow.note()
    fast.note()
    assert (fast.stored_to_ns(), slow.stored_to_ns()) == (3, 3)
    slow_to_ns[0] = 20
    assert slow.stored_to_ns() == 9, "its own is known at once"
    slow.note()
    assert fast.stored_to_ns() == 9
    with postgresql.begin() as connection:
        connection.execute(text("UPDATE judges SET stored_to_ns = 3, seen = seen - interval '61 seconds'"))
    assert (fast.stored_to_ns(), slow.stored_to_ns()) == (9, 20), "the other one ended long ago"


OF = 7


@pytest.fixture
def writer(postgresql: Engine) -> StoreWriter:
    with postgresql.begin() as connection:
        connection.execute(session_turns.delete())
    return StoreWriter(postgresql, lambda trace: trace.service != "of no rule")


def turn(number: int, revision: int = 2, *sessions: str, **changes: object) -> TraceResult:
    """Trace `number` with a run in each of `sessions`."""
    runs = [RunSummary("00", "support", session=name) for name in sessions]
    return judged(number, session=sessions[0] if sessions else None, runs=runs, revision=revision, **changes)


def waiting(engine: Engine, shares: range | list[int] = range(OF), limit: int = 100) -> list[tuple[str, int, int]]:
    """Session, trace and revision of each turn."""
    with engine.connect() as connection:
        found = waiting_turns(connection, OF, shares, limit)
    return [(turn.session, int.from_bytes(turn.trace_id, "big"), turn.revision) for turn in found]


@needs_postgresql
def test_a_trace_is_a_turn_of_each_of_its_sessions(postgresql: Engine, writer: StoreWriter) -> None:
    writer.write([turn(2, 2, "chat-2", "chat-1"), turn(1, 2, "chat-1"), turn(3)])
    assert waiting(postgresql) == [("chat-1", 1, 2), ("chat-1", 2, 2), ("chat-2", 2, 2)]
    assert waiting(postgresql, limit=1) == [("chat-1", 1, 2)], "the oldest first"


@needs_postgresql
def test_what_is_not_told_has_no_turn(postgresql: Engine, writer: StoreWriter) -> None:
    session = judged(4, session="chat-1", members={bytes.fromhex(trace_id(4)): 2})
    writer.write([turn(1, 2, "chat-1", service="of no rule"), session])
    StoreWriter(postgresql).write([turn(2, 2, "chat-1")])
    assert waiting(postgresql) == []


@needs_postgresql
def test_a_higher_revision_is_one_turn_and_tells_the_session_that_it_left(
    postgresql: Engine, writer: StoreWriter
) -> None:
    writer.write([turn(1, 2, "chat-1")])
    writer.write([turn(1, 3, "chat-2", supersedes=2)])
    assert sorted(waiting(postgresql)) == [("chat-1", 1, 3), ("chat-2", 1, 3)]
    writer.write([turn(1, 2, "chat-1")])
    assert sorted(waiting(postgresql)) == [("chat-1", 1, 3), ("chat-2", 1, 3)], "what is stored again tells nothing"


@needs_postgresql
def test_a_session_is_in_the_share_that_judges_divide_by(postgresql: Engine, writer: StoreWriter) -> None:
    names = [f"chat-{number}" for number in range(30)]
    writer.write([turn(1, 2, *names)])
    for share in range(OF):
        wanted = [name for name in names if share_of(session_trace_id("default", name), OF) == share]
        assert sorted(name for name, _, _ in waiting(postgresql, [share])) == sorted(wanted)


@needs_postgresql
def test_a_judged_turn_is_forgotten_unless_it_has_a_higher_revision_by_now(
    postgresql: Engine, writer: StoreWriter
) -> None:
    writer.write([turn(1, 2, "chat-1"), turn(2, 2, "chat-1")])
    with postgresql.connect() as connection:
        both = waiting_turns(connection, OF, range(OF), 10)
    writer.write([turn(2, 3, "chat-1", supersedes=2)])
    with postgresql.begin() as connection:
        forget_turns(connection, both)
    assert waiting(postgresql) == [("chat-1", 2, 3)]
    with postgresql.begin() as connection:
        forget_turns(connection, [SessionTurn("acme", "chat-1", both[1].trace_id, 9, 0)])
        forget_turns(connection, [])
    assert waiting(postgresql) == [("chat-1", 2, 3)], "of another tenant"


@needs_postgresql
def test_forgetting_waits_for_no_writer(postgresql: Engine, writer: StoreWriter) -> None:
    writer.write([turn(1, 2, "chat-1")])
    with postgresql.connect() as connection:
        (known,) = waiting_turns(connection, OF, range(OF), 10)
    with postgresql.begin() as noting:
        noting.execute(session_turns.update().values(revision=3))
        with postgresql.begin() as connection:
            connection.exec_driver_sql("SET LOCAL lock_timeout = '2s'")
            forget_turns(connection, [known])
    assert waiting(postgresql) == [("chat-1", 1, 3)]


@needs_postgresql
def test_a_deleted_trace_has_no_turn(postgresql: Engine, writer: StoreWriter) -> None:
    writer.write([turn(1, 2, "chat-1"), turn(2, 2, "chat-1")])
    delete_everywhere(postgresql, [bytes.fromhex(trace_id(1))])
    assert waiting(postgresql) == [("chat-1", 2, 2)]
