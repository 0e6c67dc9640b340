"""Several processes write to one PostgreSQL at once: as if one had written everything."""

import multiprocessing
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Table, select, text

from build.engines import needs_postgresql
from build.judged_traces import judged, trace_id
from build.one_of_several import BATCHES, WRITERS, batches, write, write_revision_3
from tracegrade.store import schema
from tracegrade.store.index import number_range
from tracegrade.store.open import reading
from tracegrade.store.postgresql import PostgreSQL
from tracegrade.store.read import changing_mark, stored_traces
from tracegrade.store.write import StoreWriter
from waiting import WITHIN_S, eventually

pytestmark = needs_postgresql


@pytest.fixture
def written(postgresql: Engine) -> Engine:
    start = multiprocessing.get_context("spawn")
    begin = start.Event()
    writers = [start.Process(target=write, args=(writer, begin)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    begin.set()
    for process in writers:
        process.join(WITHIN_S)
    assert [process.exitcode for process in writers] == [0] * WRITERS
    return postgresql


def counted(engine: Engine) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """``counts`` by the names of its series: their numbers depend on who came first."""
    place = (schema.counts.c.minutes, schema.counts.c.minute, schema.counts.c.complete, schema.series.c.key)
    sums = (schema.counts.c.passed, schema.counts.c.failed, schema.counts.c.not_evaluable, schema.counts.c.errors)
    of_series = schema.counts.c.series == schema.series.c.number
    with reading(engine) as connection:
        rows = connection.execute(select(*place, *sums).where(of_series)).all()
    return {tuple(row[:4]): tuple(row[4:]) for row in rows if any(row[4:])}


def stored(engine: Engine) -> dict[bytes, tuple[int, bytes]]:
    with reading(engine) as connection:
        rows = connection.execute(select(schema.traces.c.trace_id, schema.traces.c.revision, schema.traces.c.judged))
        return {bytes(id_): (revision, bytes(judged)) for id_, revision, judged in rows}


def test_the_highest_revisions_are_stored_and_counted_as_if_one_had_written(written: Engine, sqlite: Engine) -> None:
    alone = StoreWriter(sqlite)
    for writer in range(WRITERS):
        for batch in batches(writer):
            alone.write(batch)
    assert stored(written) == stored(sqlite)
    assert counted(written) == counted(sqlite)


def test_numbers_are_unique_and_every_trace_is_found_by_time_and_block(written: Engine) -> None:
    with reading(written) as connection:
        rows = connection.execute(select(schema.traces.c.number, schema.traces.c.first_received_ns)).all()
        assert len({row.number for row in rows}) == len(rows) >= WRITERS * BATCHES * 5
        for row in rows:
            bounds = number_range(connection, row.first_received_ns, row.first_received_ns + 1)
            assert bounds is not None
            assert bounds[0] <= row.number <= bounds[1]
        every = select(schema.blocks.c.chunk, schema.blocks.c.held).where(schema.blocks.c.series == schema.EVERY_SERIES)
        held: dict[int, int] = {}
        for chunk, bits in connection.execute(every):
            held[chunk] = held.get(chunk, 0) | bits
        for row in rows:
            chunk, place = divmod(row.number // schema.BLOCK_TRACES, schema.CHUNK_BLOCKS)
            assert held[chunk] >> place & 1


def test_series_are_stored_once_and_numbered_once(written: Engine) -> None:
    with reading(written) as connection:
        rows = connection.execute(select(schema.series.c.number, schema.series.c.key)).all()
    assert len({number for number, _ in rows}) == len({key for _, key in rows}) == len(rows)


def test_who_waits_for_new_traces_sees_those_that_became_visible_late(postgresql: Engine) -> None:
    with postgresql.begin() as slow:
        (number,) = slow.exec_driver_sql(f"SELECT nextval('{schema.NUMBERS}')").scalars()
        StoreWriter(postgresql).write([judged(2)])
        with reading(postgresql) as connection:
            seen = changing_mark(connection)
        names = ", ".join(column.name for column in schema.traces.columns if column.name not in ("number", "trace_id"))
        slow.exec_driver_sql(
            f"INSERT INTO traces (number, trace_id, {names}) SELECT {number}, '\\x0a', {names} FROM traces"
        )
    with reading(postgresql) as connection:
        assert changing_mark(connection) != seen


def test_two_that_store_one_trace_at_once_keep_the_higher_revision(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one comes when the first one has looked, and found nothing: it waits for the first one."""
    insert = PostgreSQL.insert
    came: list[BaseProcess] = []

    def beside_the_other(self: PostgreSQL, connection: Connection, table: Table, rows: Any) -> None:
        if table is schema.traces and not came:
            came.append(start.Process(target=write_revision_3))
            came[0].start()
            waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'")
            with postgresql.connect() as other:
                eventually(lambda: other.execute(waits).scalar_one(), "the other one, which waits for the trace")
        insert(self, connection, table, rows)

    start = multiprocessing.get_context("spawn")
    monkeypatch.setattr(PostgreSQL, "insert", beside_the_other)
    StoreWriter(postgresql).write([judged(1, "pass", revision=2), judged(2)])
    came[0].join(WITHIN_S)
    assert came[0].exitcode == 0
    with reading(postgresql) as connection:
        (found,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
        assert found.trace.revision == 3
        assert len(stored_traces(connection, bytes.fromhex(trace_id(2)))) == 1
    of_day = [sums[:2] for place, sums in counted(postgresql).items() if place[0] == schema.DAY_MINUTES]
    assert sorted(of_day) == [(1, 1), (1, 1), (2, 0)], "its evaluation, its rule, and the traces"
