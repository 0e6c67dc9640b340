"""Turns of sessions: noted with their traces, read by shares, and deleted once their sessions are judged."""

import pytest
from sqlalchemy import Engine

from build.engines import needs_postgresql
from build.judged_traces import judged, trace_id
from tracegrade.assemble.share import share_of
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import RunSummary, TraceResult
from tracegrade.store.delete import delete_everywhere
from tracegrade.store.schema import session_turns
from tracegrade.store.several_processes import SessionTurn, forget_turns, waiting_turns
from tracegrade.store.write import StoreWriter

pytestmark = needs_postgresql

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


def test_a_trace_is_a_turn_of_each_of_its_sessions(postgresql: Engine, writer: StoreWriter) -> None:
    writer.write([turn(2, 2, "chat-2", "chat-1"), turn(1, 2, "chat-1"), turn(3)])
    assert waiting(postgresql) == [("chat-1", 1, 2), ("chat-1", 2, 2), ("chat-2", 2, 2)]
    assert waiting(postgresql, limit=1) == [("chat-1", 1, 2)], "the oldest first"


def test_what_is_not_told_has_no_turn(postgresql: Engine, writer: StoreWriter) -> None:
    session = judged(4, session="chat-1", members={bytes.fromhex(trace_id(4)): 2})
    writer.write([turn(1, 2, "chat-1", service="of no rule"), session])
    StoreWriter(postgresql).write([turn(2, 2, "chat-1")])
    assert waiting(postgresql) == []


def test_a_higher_revision_is_one_turn_and_tells_the_session_that_it_left(
    postgresql: Engine, writer: StoreWriter
) -> None:
    writer.write([turn(1, 2, "chat-1")])
    writer.write([turn(1, 3, "chat-2", supersedes=2)])
    assert sorted(waiting(postgresql)) == [("chat-1", 1, 3), ("chat-2", 1, 3)]
    writer.write([turn(1, 2, "chat-1")])
    assert sorted(waiting(postgresql)) == [("chat-1", 1, 3), ("chat-2", 1, 3)], "what is stored again tells nothing"


def test_a_session_is_in_the_share_that_judges_divide_by(postgresql: Engine, writer: StoreWriter) -> None:
    names = [f"chat-{number}" for number in range(30)]
    writer.write([turn(1, 2, *names)])
    for share in range(OF):
        wanted = [name for name in names if share_of(session_trace_id("default", name), OF) == share]
        assert sorted(name for name, _, _ in waiting(postgresql, [share])) == sorted(wanted)


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


def test_a_deleted_trace_has_no_turn(postgresql: Engine, writer: StoreWriter) -> None:
    writer.write([turn(1, 2, "chat-1"), turn(2, 2, "chat-1")])
    delete_everywhere(postgresql, [bytes.fromhex(trace_id(1))])
    assert waiting(postgresql) == [("chat-1", 2, 2)]
