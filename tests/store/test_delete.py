from pathlib import Path

import pytest
from sqlalchemy import Engine

from build.judged_traces import MINUTE_NS, START_NS, judged, tool_call, trace_id
from build.stored_runs import begin
from tracegrade.model.trace_result import RunSummary
from tracegrade.store.delete import (
    DeletedRows,
    delete_everywhere,
    overwrite_deleted,
    traces_before,
    traces_of_session,
    traces_of_user,
)
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import open_store, reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.write import StoreWriter


def id_of(number: int) -> bytes:
    return bytes.fromhex(trace_id(number))


def files_with(folder: Path, piece: bytes) -> list[str]:
    return [path.name for path in folder.iterdir() if piece in path.read_bytes()]


@pytest.mark.parametrize("revised", [False, True])
def test_no_byte_of_a_deleted_trace_is_left_in_file_or_log(sqlite: Engine, tmp_path: Path, revised: bool) -> None:
    writer = StoreWriter(sqlite)
    secret = [tool_call(name="the-marker")]
    # Small rows, several to a page, so that the page of the one that goes stays in use.
    writer.write([judged(number, tool_calls=secret if number == 25 else None) for number in range(50)])
    if revised:
        writer.write([judged(25, revision=3)])  # the row that holds it is replaced before anybody asks
    other = open_store(f"sqlite:///{tmp_path / 'tracegrade.db'}", read_only=True)  # keeps the log from going by itself
    with other.connect() as connection:
        assert len(trace_heads(connection, ResultFilter(), 100)) == 50
    assert files_with(tmp_path, b"the-marker")
    assert delete_everywhere(sqlite, [id_of(25)]) == DeletedRows(traces=1, evaluations=1)
    overwrite_deleted(sqlite)
    assert files_with(tmp_path, b"the-marker") == []
    with other.connect() as connection:
        assert [int(head.trace_id, 16) for head in trace_heads(connection, ResultFilter(), 100)] == [
            number for number in reversed(range(50)) if number != 25
        ]
    other.dispose()


def test_deleting_again_deletes_nothing(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2)])
    assert delete_everywhere(engine, [id_of(1), id_of(9)]).traces == 1
    assert delete_everywhere(engine, [id_of(1), id_of(9)]) == DeletedRows()


def test_a_trace_goes_in_every_tenant_and_run(engine: Engine) -> None:
    begin(engine, "experiment")
    StoreWriter(engine).write([judged(1), judged(1, tenant="other"), judged(1, run="experiment")])
    assert delete_everywhere(engine, [id_of(1)]).traces == 3
    with reading(engine) as connection:
        assert results(connection, ResultFilter(), 9) == []


def test_traces_are_found_by_session_by_user_and_by_time(engine: Engine) -> None:
    runs = [RunSummary("00", "a", session="s-2")]
    StoreWriter(engine).write([judged(1, session="s-1"), judged(2, session="s-1", runs=runs), judged(3)])
    with reading(engine) as connection:
        assert traces_of_session(connection, lambda tenant: ["s-1"]) == {id_of(1), id_of(2)}
        assert traces_of_session(connection, lambda tenant: ["s-2"]) == {id_of(2)}
        assert traces_of_user(connection, lambda tenant: ["shop"], ["service.name"]) == {id_of(1), id_of(2), id_of(3)}
        assert traces_of_user(connection, lambda tenant: ["support"], ["gen_ai.agent.name"]) == {
            id_of(1),
            id_of(2),
            id_of(3),
        }
        assert traces_of_user(connection, lambda tenant: ["nobody"], ["gen_ai.agent.name"]) == set()
        assert traces_before(connection, START_NS + 3 * MINUTE_NS) == {id_of(1), id_of(2)}
