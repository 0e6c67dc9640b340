from sqlalchemy import Engine

from build.judged_traces import judged, spans, trace_id
from build.stored_runs import begin
from build.ten_traces import minute
from tracegrade.store.open import reading
from tracegrade.store.read import closed_traces, stored_traces
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


def test_an_unknown_trace_is_an_empty_answer(engine: Engine) -> None:
    with reading(engine) as connection:
        assert stored_traces(connection, bytes(16)) == []
