import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InternalError,
    OperationalError,
    ProgrammingError,
)

from build import each, store_with
from build.judged_traces import evaluation, judged, trace_id
from tracegrade.codec.results import decode_result, encode_result
from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.deliver.sinks import sql
from tracegrade.deliver.sinks.sql import SqlSink
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.open import open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.series import Beyond
from tracegrade.store.write import StoreWriter
from tracegrade.telemetry.conditions import Conditions


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_store(store_with(tmp_path))


def deliver(sink: SqlSink, *batches: list[TraceResult]) -> list[Delivery]:
    async def run() -> list[Delivery]:
        try:
            return [await sink.deliver(batch) for batch in batches]
        finally:
            await sink.close()

    return asyncio.run(run())


def stored(engine: Engine) -> list[int]:
    with reading(engine) as connection:
        return sorted(int(result.trace_id, 16) for result in results(connection, ResultFilter(), 100))


def broken(number: int) -> TraceResult:
    record = judged(number)
    record.evaluations[0].outcome = "no such outcome"  # type: ignore[assignment]
    return record


def test_a_batch_is_stored(engine: Engine) -> None:
    assert deliver(SqlSink(engine), [judged(1), judged(2)]) == [DONE]
    assert stored(engine) == [1, 2]


def test_a_batch_delivered_twice_is_stored_once(engine: Engine) -> None:
    batch = [judged(1), judged(2)]
    assert deliver(SqlSink(engine), batch, batch) == [DONE, DONE]
    assert stored(engine) == [1, 2]


def test_a_record_that_came_through_the_results_journal_is_stored(engine: Engine) -> None:
    deliver(SqlSink(engine), [decode_result(encode_result(judged(1)))])
    assert stored(engine) == [1]


@pytest.mark.parametrize("position", range(5))
def test_a_record_that_cannot_be_stored_is_given_up_alone(engine: Engine, position: int) -> None:
    batch = [judged(number) for number in range(5)]
    batch[position] = broken(position)
    assert deliver(SqlSink(engine), batch) == [Delivery("done", "not_storable", failed_records=1)]
    assert stored(engine) == [number for number in range(5) if number != position]


def test_a_batch_of_nothing_but_bad_records_is_given_up(engine: Engine) -> None:
    assert deliver(SqlSink(engine), [broken(1), broken(2)]) == [Delivery("done", "not_storable", failed_records=2)]


@pytest.mark.parametrize("cause", ["database is locked", "database or disk is full", "disk I/O error"])
def test_a_store_that_cannot_write_now_is_worth_a_retry(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    def refuse(self: StoreWriter, batch: Any) -> None:
        raise OperationalError("INSERT", {}, sqlite3.OperationalError(cause))

    monkeypatch.setattr(StoreWriter, "write_part", refuse)
    assert deliver(SqlSink(engine), [judged(1)]) == [Delivery("retry", "store_unavailable")]


class Refused(Exception):
    """What a PostgreSQL server says, as its driver raises it."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@each(
    ("state", "kind", "is_of_the_server"),
    [
        ("25006", InternalError, True),  # cannot execute INSERT in a read-only transaction
        ("42501", ProgrammingError, True),  # permission denied for table traces
        ("42P01", ProgrammingError, True),  # relation "traces" does not exist
        ("53100", OperationalError, True),  # could not extend file: No space left on device
        ("57P01", OperationalError, True),  # terminating connection due to administrator command
        ("XX001", InternalError, True),  # invalid page in block
        ("22021", DataError, False),  # invalid byte sequence for encoding "UTF8": 0x00
        ("23514", IntegrityError, False),  # new row violates check constraint
    ],
)
def test_what_a_server_refuses_whatever_it_is_asked_is_worth_a_retry(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, state: str, kind: type[DBAPIError], is_of_the_server: bool
) -> None:
    def refuse(self: StoreWriter, batch: Any) -> None:
        raise kind("INSERT", {}, Refused(state))

    monkeypatch.setattr(StoreWriter, "write_part", refuse)
    given_up = Delivery("done", "not_storable", failed_records=1)
    expected = Delivery("retry", "store_unavailable") if is_of_the_server else given_up
    assert deliver(SqlSink(engine), [judged(1)]) == [expected]


def test_a_store_locked_by_another_program_is_worth_a_retry_and_loses_nothing(engine: Engine) -> None:
    async def run() -> list[Delivery]:
        sink = SqlSink(engine)
        other = sqlite3.connect(str(engine.url.database), isolation_level=None)
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout=1")
        other.execute("BEGIN IMMEDIATE")
        first = await sink.deliver([judged(1)])
        other.execute("ROLLBACK")
        other.close()
        second = await sink.deliver([judged(1)])
        await sink.close()
        return [first, second]

    assert asyncio.run(run()) == [Delivery("retry", "store_unavailable"), DONE]
    assert stored(engine) == [1]


def test_a_store_that_goes_away_between_the_halves_is_tried_again_whole(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = StoreWriter.write_part
    locked = True

    def sometimes(self: StoreWriter, batch: Any) -> list[TraceResult]:
        if locked and batch[0].trace.trace_id == trace_id(2):
            raise OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked"))
        return write(self, batch)

    monkeypatch.setattr(StoreWriter, "write_part", sometimes)
    batch = [broken(0), judged(1), judged(2), judged(3)]
    sink = SqlSink(engine)

    async def run() -> list[Delivery]:
        nonlocal locked
        first = await sink.deliver(batch)
        locked = False
        second = await sink.deliver(batch)
        await sink.close()
        return [first, second]

    assert asyncio.run(run()) == [Delivery("retry", "store_unavailable"), Delivery("done", "not_storable", None, 1)]
    assert stored(engine) == [1, 2, 3]


def test_further_names_than_are_counted_are_a_condition_until_they_stay_away(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions = Conditions()
    sink = SqlSink(engine, max_names=1, conditions=conditions)
    deliver(sink, [judged(1)])
    assert conditions.current() == []
    sink = SqlSink(engine, max_names=1, conditions=conditions)
    deliver(sink, [judged(2, service="bank", evaluations=[evaluation(2, agent="x" * 99)])])
    first, second = sorted(conditions.current(), key=lambda found: found.where)
    assert (first.name, first.where, second.where) == (
        "too_many_names",
        "default, gen_ai.agent.name",
        "default, service.name",
    )
    assert "service 'bank' of tenant 'default' sends further values of gen_ai.agent.name" in first.message
    assert "x" * 80 + "...'" in first.message
    monkeypatch.setattr(sql, "_QUIET_S", -1.0)
    too_many = sql.TooManyNames(1, conditions)
    too_many.say([Beyond("default", "gen_ai.agent.name", "bank", "y"), Beyond("default", "service.name", "bank", "y")])
    assert conditions.current() == []


def test_closing_leaves_one_file(engine: Engine) -> None:
    deliver(SqlSink(engine), [judged(1)])
    path = Path(str(engine.url.database))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_disk_too_full_for_the_last_checkpoint_fails_no_stop(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(engine: Engine) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("tracegrade.deliver.sinks.sql.checkpoint", refuse)
    assert deliver(SqlSink(engine), [judged(1)]) == [DONE]
    assert stored(engine) == [1]
