"""PostgreSQL's parts of ``traces``: made before they are needed, dropped as a whole when they are old."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from sqlalchemy import Engine, event, func, inspect, select, text

from build.engines import needs_postgresql
from build.judged_traces import MINUTE_NS, START_NS, judged, trace_id
from build.stored_runs import begin
from tracegrade.store import partitions, schema
from tracegrade.store.database import Partition
from tracegrade.store.delete import delete_older
from tracegrade.store.open import reading
from tracegrade.store.partitions import drop_expired, make_room
from tracegrade.store.partitions import partitions as parts
from tracegrade.store.read import stored_traces
from tracegrade.store.registry import database
from tracegrade.store.write import StoreWriter

pytestmark = needs_postgresql

SIZE = 10
DAY_NS = schema.DAY_MINUTES * MINUTE_NS


@pytest.fixture
def small(postgresql: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """A store whose parts hold ten traces each; the first of them begins with the next trace."""
    monkeypatch.setattr(partitions, "SMALLEST", SIZE)
    monkeypatch.setattr(partitions, "CHUNK_TRACES", SIZE)
    monkeypatch.setattr(partitions, "LARGEST", SIZE)
    with reading(postgresql) as connection:
        end = parts(connection)[-1].end
    with postgresql.begin() as connection:
        make_room(connection, end - 1)
    with postgresql.begin() as connection:
        connection.execute(text(f"SELECT setval('{schema.NUMBERS}', {end}, false)"))
    return postgresql


def store_days(engine: Engine, days: Sequence[int], **changes: object) -> None:
    """Ten traces a day, one transaction each."""
    for day in days:
        received = START_NS + day * DAY_NS
        times = {"first_received_ns": received, "last_received_ns": received}
        StoreWriter(engine).write([judged(100 * day + number, **times, **changes) for number in range(SIZE)])


def full(engine: Engine) -> list[Partition]:
    with reading(engine) as connection:
        return [part for part in parts(connection) if _count(engine, part)]


def _count(engine: Engine, part: Partition) -> int:
    with reading(engine) as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {part.table}")).scalar_one())


def is_stored(engine: Engine, number: int) -> bool:
    with reading(engine) as connection:
        return bool(stored_traces(connection, bytes.fromhex(trace_id(number))))


def keys(engine: Engine) -> int:
    with reading(engine) as connection:
        return int(connection.execute(select(func.count()).select_from(schema.trace_keys)).scalar_one())


def test_traces_of_a_day_fill_a_part_and_the_next_one_is_there_before(small: Engine) -> None:
    store_days(small, range(3))
    found = full(small)
    assert [_count(small, part) for part in found] == [SIZE, SIZE, SIZE]
    assert all(part.end == after.first for part, after in pairwise(found))
    with reading(small) as connection:
        assert parts(connection)[-1].first == found[-1].end, "the next trace finds its part"


def test_old_parts_are_dropped_and_nothing_of_them_is_left(small: Engine) -> None:
    store_days(small, range(4))
    assert delete_older(small, START_NS + 2 * DAY_NS) == 0, "no row was deleted one by one"
    assert [_count(small, part) for part in full(small)] == [SIZE, SIZE]
    assert keys(small) == 2 * SIZE
    assert [is_stored(small, 100 * day) for day in range(4)] == [False, False, True, True]
    store_days(small, [0])
    assert is_stored(small, 0), "what came again is stored anew"


def test_a_part_of_which_some_traces_are_young_waits_a_day_then_goes_whole(small: Engine) -> None:
    store_days(small, range(3))
    drop_expired(small, START_NS + DAY_NS // 2)
    assert [is_stored(small, number) for number in (0, 100)] == [False, True]
    deleted: list[str] = []
    event.listen(small, "before_cursor_execute", lambda *given: deleted.append(given[2]))
    assert delete_older(small, START_NS + DAY_NS + MINUTE_NS // 2) == 0, "it would be dropped a minute later"
    assert is_stored(small, 100)
    assert delete_older(small, START_NS + DAY_NS + MINUTE_NS) == 0
    assert not is_stored(small, 100)
    assert not any(said.startswith("DELETE FROM traces ") for said in deleted)


def test_a_part_that_is_still_written_is_deleted_row_by_row(small: Engine) -> None:
    store_days(small, [0])
    assert delete_older(small, START_NS + DAY_NS) == SIZE
    assert keys(small) == 0


def test_a_part_with_traces_of_a_run_that_is_kept_is_deleted_row_by_row(small: Engine) -> None:
    begin(small, "tuning/1", written_ns=START_NS + 30 * DAY_NS)
    received = {"first_received_ns": START_NS, "last_received_ns": START_NS}
    half = [judged(number, **received) for number in range(SIZE // 2)]
    of_run = [judged(50 + number, run="tuning/1", **received) for number in range(SIZE // 2)]
    StoreWriter(small).write([*half, *of_run])
    store_days(small, [1, 2])
    assert delete_older(small, START_NS + DAY_NS) == SIZE // 2
    assert delete_older(small, START_NS + DAY_NS) == 0
    with reading(small) as connection:
        assert stored_traces(connection, bytes.fromhex(trace_id(50)), run="tuning/1")


def test_a_part_that_is_read_is_dropped_later_and_meanwhile_writing_goes_on(small: Engine) -> None:
    store_days(small, range(3))
    with small.connect() as reader:
        reader.execute(text("SELECT count(*) FROM traces"))
        drop_expired(small, START_NS + DAY_NS)
        assert len(full(small)) == 3
        assert is_stored(small, 0), "by its id, as long as its row is there"
        store_days(small, [3])
    drop_expired(small, START_NS + DAY_NS)
    assert [_count(small, part) for part in full(small)] == [SIZE] * 3, "of four"


def test_what_a_kill_left_of_a_dropped_part_is_finished_by_the_next_call(
    small: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_days(small, range(3))
    with monkeypatch.context() as killed:
        killed.setattr(partitions, "_drop_taken_out", lambda engine: 0)
        drop_expired(small, START_NS + DAY_NS)
    assert not is_stored(small, 0)
    assert keys(small) == 3 * SIZE, "the ids of the part that was taken out are still known"
    drop_expired(small, START_NS + DAY_NS)
    assert keys(small) == 2 * SIZE
    with reading(small) as connection:
        assert not [name for name in inspect(connection).get_table_names() if name.startswith("dropped_")]


def test_a_later_revision_goes_into_the_part_of_today_and_is_stored_once(small: Engine) -> None:
    store_days(small, range(2))
    received = {"first_received_ns": START_NS, "last_received_ns": START_NS + DAY_NS}
    StoreWriter(small).write([judged(3, "fail", revision=9, **received)])
    with reading(small) as connection:
        (found,) = stored_traces(connection, bytes.fromhex(trace_id(3)))
        rows = connection.execute(select(func.count()).select_from(schema.traces)).scalar_one()
    assert (found.trace.revision, rows, keys(small)) == (9, 2 * SIZE, 2 * SIZE)


def test_a_part_is_as_large_as_the_traces_of_the_last_day_are_many(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "SMALLEST", SIZE)
    monkeypatch.setattr(partitions, "CHUNK_TRACES", SIZE)
    monkeypatch.setattr(partitions.time, "time_ns", lambda: START_NS + DAY_NS)
    store_days(postgresql, [0, 1])
    with reading(postgresql) as connection:
        last = parts(connection)[-1]
        (newest,) = connection.execute(select(func.max(schema.traces.c.number))).scalars()
    room = database(postgresql).make_room(postgresql, last.end)
    with reading(postgresql) as connection:
        made = [part for part in parts(connection) if part.first >= last.end]
    first_of_day = newest - 2 * SIZE + 1
    assert room == made[-1].first
    assert made[0].end - made[0].first == -(-(last.end - first_of_day) // SIZE) * SIZE
