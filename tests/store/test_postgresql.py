"""The same store on PostgreSQL, for real where there is one."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest
from sqlalchemy import Engine, func, select, text

from store.judged_traces import MINUTE_NS, START_NS, judged, trace_id
from tracegrade.store import schema
from tracegrade.store.open import open_store, reading
from tracegrade.store.rates import rates
from tracegrade.store.read import Filter, closed_traces, results, stored_traces, trace_heads
from tracegrade.store.retention import delete_older
from tracegrade.store.write import StoreWriter

URL = os.environ.get("TRACEGRADE_TEST_POSTGRESQL")

pytestmark = pytest.mark.skipif(
    URL is None or find_spec("psycopg") is None,
    reason="needs pip install -e '.[postgresql]' and TRACEGRADE_TEST_POSTGRESQL=postgresql+psycopg://... (is emptied)",
)


@pytest.fixture
def engine() -> Iterator[Engine]:
    assert URL is not None
    engine = open_store(URL)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    engine = open_store(URL)
    yield engine
    engine.dispose()


def test_what_is_written_is_read(engine: Engine) -> None:
    writer = StoreWriter(engine)
    writer.write([judged(number, "fail" if number % 2 else "pass") for number in range(6)])
    writer.write([judged(3, "pass", revision=3), judged(4, "fail", revision=1)])
    with reading(engine) as connection:
        assert [item.outcome for item in results(connection, Filter(), 10)] == [
            "pass",
            "fail",
            *["pass"] * 2,
            "fail",
            "pass",
        ]
        assert len(results(connection, Filter(rule="checkout-order", outcome="fail"), 10)) == 2
        since = Filter(since_ns=START_NS + 4 * MINUTE_NS)
        assert {item.trace_id for item in results(connection, since, 10)} == {trace_id(4), trace_id(5)}
        assert results(connection, Filter(trace_id=bytes.fromhex(trace_id(77))), 10) == []
        assert len(trace_heads(connection, Filter(outcome="fail"), 10)) == 2
        assert len(stored_traces(connection, bytes.fromhex(trace_id(3)))) == 1
        assert len(closed_traces(connection, [("default", bytes.fromhex(trace_id(3)))])) == 1
        (rate,) = rates(connection, Filter())
    assert (rate.passed, rate.failed) == (4, 2)


def test_several_writers_at_once_lose_nothing_and_double_nothing(engine: Engine) -> None:
    def write(first: int) -> None:
        writer = StoreWriter(engine)
        for number in range(first, first + 20):
            writer.write([judged(number), judged(1000)])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, (0, 100, 200, 300)))
    with reading(engine) as connection:
        assert connection.execute(select(func.count()).select_from(schema.traces)).scalar_one() == 81


def test_old_traces_go(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(6)])
    assert delete_older(engine, START_NS + 4 * MINUTE_NS) == 4
    assert delete_older(engine, START_NS + 4 * MINUTE_NS) == 0
    with reading(engine) as connection:
        assert len(results(connection, Filter(), 10)) == 2


def test_the_view_for_people_reads_plainly(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1, "fail")])
    with reading(engine) as connection:
        row = connection.execute(text("SELECT rule_id, outcome, trace_id FROM results")).one()
    assert row == ("checkout-order", "fail", trace_id(1))


def test_text_that_postgresql_refuses_is_stored_all_the_same(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1, service="shop\0", root_name="\ud800")])
    with reading(engine) as connection:
        (stored,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
    assert stored.trace["service"] == "shop\0"


def test_the_views_over_lists_have_their_types(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1, "fail"), judged(2, "error")])
    with reading(engine) as connection:
        evaluations = connection.execute(text("SELECT trace, place, outcome, score FROM evaluations ORDER BY trace"))
        assert evaluations.all() == [(1, 0, 1, 0.25), (2, 0, 3, None)]
        decisions = connection.execute(text("SELECT trace, place, kind, outcome FROM decisions ORDER BY trace"))
        assert decisions.all() == [(1, 0, 0, 1), (2, 0, 4, 3)]
        calls = connection.execute(text("SELECT place, name, start_ns, error_type FROM tool_calls WHERE trace = 1"))
        assert calls.all() == [(0, "create_order", START_NS + 1000, None)]
