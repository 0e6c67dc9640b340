"""What is PostgreSQL's own; whatever holds for every store is tested over both, see engines.py."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, Table, func, select, text
from sqlalchemy.exc import DBAPIError, OperationalError

from build.engines import POSTGRESQL, needs_postgresql, without_tables
from build.judged_traces import START_NS, judged, trace_id
from tracegrade.serve.process import name_process
from tracegrade.store import schema
from tracegrade.store.errors import StoreError
from tracegrade.store.open import open_store, reading, reading_store
from tracegrade.store.postgresql import PostgreSQL
from tracegrade.store.read import newest_number, stored_traces
from tracegrade.store.version import VERSION
from tracegrade.store.write import StoreWriter

pytestmark = needs_postgresql


def test_several_writers_at_once_lose_nothing_and_double_nothing(postgresql: Engine) -> None:
    def write(first: int) -> None:
        writer = StoreWriter(postgresql)
        for number in range(first, first + 20):
            writer.write([judged(number), judged(1000)])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, (0, 100, 200, 300)))
    with reading(postgresql) as connection:
        assert connection.execute(select(func.count()).select_from(schema.traces)).scalar_one() == 81


def test_several_that_start_at_once_make_one_store() -> None:
    without_tables(POSTGRESQL)
    with ThreadPoolExecutor(4) as threads:
        for engine in threads.map(open_store, [POSTGRESQL] * 4):
            with reading(engine) as connection:
                assert connection.execute(select(func.count()).select_from(schema.traces)).scalar_one() == 0
            engine.dispose()


def test_text_that_postgresql_refuses_is_stored_all_the_same(postgresql: Engine) -> None:
    StoreWriter(postgresql).write([judged(1, service="shop\0", root_name="\ud800")])
    with reading(postgresql) as connection:
        (stored,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
    assert stored.trace.service == "shop\0"


def test_the_views_over_lists_have_their_types(postgresql: Engine) -> None:
    StoreWriter(postgresql).write([judged(1, "fail"), judged(2, "error")])
    with reading(postgresql) as connection:
        first = newest_number(connection) - 1
        evaluations = connection.execute(text("SELECT trace, place, outcome, score FROM evaluations ORDER BY trace"))
        assert evaluations.all() == [(first, 0, 1, 0.25), (first + 1, 0, 3, None)]
        decisions = connection.execute(text("SELECT trace, place, kind, outcome FROM decisions ORDER BY trace"))
        assert decisions.all() == [(first, 0, 0, 1), (first + 1, 0, 4, 3)]
        calls = connection.execute(
            text(f"SELECT place, name, start_ns, error_type FROM tool_calls WHERE trace = {first}")
        )
        assert calls.all() == [(0, "create_order", START_NS + 1000, None)]


@pytest.mark.parametrize(
    ("changed", "raised"), [({"first_position": 2**70}, TypeError), ({"close_reason": "\0"}, DBAPIError)]
)
def test_what_copy_refuses_is_an_error_as_of_a_statement_and_stores_nothing(
    postgresql: Engine, changed: dict[str, Any], raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        StoreWriter(postgresql).write([judged(1), judged(2, **changed)])
    with reading(postgresql) as connection:
        assert connection.execute(select(func.count()).select_from(schema.traces)).scalar_one() == 0
    StoreWriter(postgresql).write([judged(1)])


def test_a_writer_whose_tables_a_newer_version_changed_stores_nothing_and_says_so(postgresql: Engine) -> None:
    writer = StoreWriter(postgresql)
    writer.write([judged(1)])
    set_version = text("UPDATE alembic_version SET version_num = :version")
    with postgresql.begin() as connection:
        connection.execute(set_version, {"version": "9999"})
    try:
        with pytest.raises(StoreError, match="changed to version 9999 meanwhile"):
            writer.write([judged(2)])
    finally:
        with postgresql.begin() as connection:
            connection.execute(set_version, {"version": VERSION})
    with reading(postgresql) as connection:
        assert connection.execute(select(func.count()).select_from(schema.traces)).scalar_one() == 1


def test_an_operator_sees_whose_a_connection_is(postgresql: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGAPPNAME", raising=False)
    url = postgresql.url.render_as_string(hide_password=False)

    def name() -> str:
        with reading_store(url) as connection:
            return str(connection.execute(text("SHOW application_name")).scalar_one())

    assert name() == "tracegrade"
    monkeypatch.setenv("PGAPPNAME", "tracegrade receive")  # inherited from the role that started this one
    name_process("judge")
    assert name() == "tracegrade judge"
    monkeypatch.setenv("PGAPPNAME", "results of team A")
    name_process("judge")
    assert name() == "results of team A"


def test_a_server_that_goes_while_rows_are_copied_is_worth_another_attempt(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, insert = StoreWriter(postgresql), PostgreSQL.insert

    def interrupted(self: PostgreSQL, connection: Connection, table: Table, rows: Any) -> None:
        if table is not schema.traces:
            insert(self, connection, table, rows)
            return
        with postgresql.connect() as other:
            pid = connection.connection.driver_connection.info.backend_pid
            other.execute(text(f"SELECT pg_terminate_backend({pid})"))
        insert(self, connection, table, rows)

    monkeypatch.setattr(PostgreSQL, "insert", interrupted)
    with pytest.raises(OperationalError):
        writer.write([judged(1)])
    monkeypatch.undo()
    writer.write([judged(1)])
