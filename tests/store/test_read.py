"""Traces as they are read from the store, and which ids it holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from build import store_with
from build.judged_traces import judged, spans, trace_id
from build.stored_runs import begin
from build.ten_traces import minute
from tracegrade.store.open import open_store, reading
from tracegrade.store.read import PresentIds, closed_traces, results_of_traces, stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.write import StoreWriter


def test_closed_traces_are_found_by_tenant_and_id(filled: Engine) -> None:
    known = ("default", bytes.fromhex(trace_id(3)))
    with reading(filled) as connection:
        found = closed_traces(connection, [known, ("other", known[1]), ("default", bytes.fromhex(trace_id(77)))])
    assert set(found) == {known}
    closed = found[known]
    assert (closed.closed_ns, closed.revision, closed.first_position) == (minute(3) + 2_000_000_000, 2, 10)
    assert (closed.spans, closed.replaced, closed.log_records, closed.filter_hash) == (spans(3), [], [], "")


def test_closed_traces_of_experiments_are_not_reopened(engine: Engine) -> None:
    begin(engine, "tuning")
    StoreWriter(engine).write([judged(1, run="tuning")])
    with reading(engine) as connection:
        assert closed_traces(connection, [("default", bytes.fromhex(trace_id(1)))]) == {}


def test_more_ids_than_one_query_takes_are_all_found(engine: Engine) -> None:
    numbers = range(1201)
    StoreWriter(engine).write([judged(number, evaluations=[]) for number in numbers])
    with reading(engine) as connection:
        found = closed_traces(connection, [("default", bytes.fromhex(trace_id(number))) for number in numbers])
    assert len(found) == 1201


def test_results_of_traces_come_with_their_spans_newest_first(engine: Engine) -> None:
    begin(engine, "tuning")
    StoreWriter(engine).write([judged(1), judged(2), judged(3), judged(4, run="tuning")])
    with reading(engine) as connection:
        found = list(results_of_traces(connection, ResultFilter()))
    assert [one.trace.trace_id for one in found] == [trace_id(number) for number in (3, 2, 1)]
    assert all(one.spans for one in found)


def test_an_unknown_trace_is_an_empty_answer(engine: Engine) -> None:
    with reading(engine) as connection:
        assert stored_traces(connection, bytes(16)) == []


def ids(*numbers: int) -> list[bytes]:
    return [bytes.fromhex(trace_id(number)) for number in numbers]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Engine]:
    engine = open_store(store_with(tmp_path))
    yield engine
    engine.dispose()


@pytest.fixture
def present(tmp_path: Path, writer: Engine) -> Iterator[PresentIds]:
    engine = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}", read_only=True)
    present = PresentIds(lambda: engine)
    yield present
    present.close()
    engine.dispose()


def test_one_stored_trace_among_others_is_noticed(writer: Engine, present: PresentIds) -> None:
    StoreWriter(writer).write([judged(1)])
    assert present.may_be(ids(2, 1, 3))
    assert not present.may_be(ids(2, 3))
    assert not present.may_be([])


def test_what_is_stored_after_a_question_is_there_at_the_next(writer: Engine, present: PresentIds) -> None:
    store = StoreWriter(writer)
    store.write([judged(1)])
    assert present.may_be(ids(1, 2))  # found, so the query could have been left half read
    assert not present.may_be(ids(2))
    store.write([judged(2)])
    assert present.may_be(ids(2))


def test_a_question_keeps_no_old_state_of_the_store_alive(writer: Engine, present: PresentIds) -> None:
    StoreWriter(writer).write([judged(1)])
    assert present.may_be(ids(1))
    with writer.connect() as connection:
        busy, left, moved = connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (busy, left, moved) == (0, 0, 0)


def test_traces_of_experiments_may_be_there_too(writer: Engine, present: PresentIds) -> None:
    begin(writer, "tuning")
    StoreWriter(writer).write([judged(1, run="tuning")])
    assert present.may_be(ids(1))


def test_more_ids_than_one_query_takes_are_all_asked_for(writer: Engine, present: PresentIds) -> None:
    StoreWriter(writer).write([judged(1200, evaluations=[])])
    assert present.may_be(ids(*range(1201)))
    assert not present.may_be(ids(*range(1200)))


def test_of_a_store_that_cannot_be_read_nothing_is_ruled_out(writer: Engine, present: PresentIds) -> None:
    assert not present.may_be(ids(1))
    with writer.connect() as connection:
        connection.connection.cursor().execute("ALTER TABLE traces RENAME TO others")
    assert present.may_be(ids(1))
    with writer.connect() as connection:
        connection.connection.cursor().execute("ALTER TABLE others RENAME TO traces")
    assert not present.may_be(ids(1))


def test_of_another_database_nothing_is_ruled_out(engine: Engine) -> None:
    present = PresentIds(lambda: engine)
    assert present.may_be(ids(1)) == (engine.dialect.name != "sqlite")
    present.close()
