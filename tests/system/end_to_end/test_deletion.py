"""``tracegrade traces delete`` beside a running serve, across kills, and where none runs."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from build.otlp import agent_span, payload, spans_of, tool_span
from build.served import Server, export, served
from build.served_folder import id_of, secret_trace
from tracegrade.cli import main
from tracegrade.store.errors import StoreError
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import open_store, reading
from tracegrade.store.result_filter import ResultFilter
from waiting import eventually

pytestmark = pytest.mark.long

SECRET = "the-marker-that-must-go"


def files_with(server: Server, piece: str) -> list[str]:
    found = []
    for path in server.data.rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):  # files come and go while serve runs
            if piece.encode() in path.read_bytes():
                found.append(str(path))
    return sorted(found)


def traces(server: Server) -> set[str]:
    """The stored traces; asked in this process, which is quicker than a command line."""
    try:
        engine = open_store(f"sqlite:///{server.data / 'tracegrade.db'}", read_only=True)
    except StoreError:
        return set()  # the judge is starting
    with reading(engine) as connection:
        found = {head.trace_id for head in trace_heads(connection, ResultFilter(), 10)}
    engine.dispose()
    return found


def delete(server: Server, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["traces", "delete", *arguments, "--yes", "-c", str(server.config)])


def test_a_running_serve_deletes_judged_and_open_traces_and_judges_on(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        endpoint = server.endpoints["grpc"]
        export(endpoint, payload(spans_of(secret_trace(1, SECRET, user="ann")) + spans_of(secret_trace(2, "harmless"))))
        eventually(lambda: traces(server) == {id_of(1).hex(), id_of(2).hex()}, "two traces")
        before = [line for line in server.canonical("replay") if id_of(2).hex() in line]
        # Without its root trace 3 stays open; what it has tells its user all the same.
        export(endpoint, payload(spans_of(secret_trace(3, SECRET + "-open", user="ann"))[:1]))
        done = json.loads(delete(server, "--user", "ann", "--format", "json").stdout)
        assert done["state"] == "done"
        assert done["trace_count"] == 2
        assert files_with(server, SECRET) == []
        assert files_with(server, "ann") == []
        # What comes later of a deleted trace is not judged; what else comes is.
        export(endpoint, payload([tool_span(3, 9, 1, SECRET), agent_span(1, 8)]))
        export(endpoint, payload(spans_of(secret_trace(4, "later"))))
        eventually(lambda: id_of(4).hex() in traces(server), "the later trace")
        assert traces(server) == {id_of(2).hex(), id_of(4).hex()}
        dropped = eventually(
            lambda: server.metric("tracegrade_spans_total", "judge", fate="dropped", reason="deleted"), "dropped spans"
        )
        assert dropped >= 2
        eventually(lambda: not files_with(server, SECRET), "the late spans to be erased, too")
        replayed = server.canonical("replay")
        assert [line for line in replayed if id_of(2).hex() in line] == before
        assert not any(id_of(trace).hex() in line for line in replayed for trace in (1, 3))


def test_a_deletion_outlives_kills_and_is_done_where_nobody_serves(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        export(server.endpoints["grpc"], payload(spans_of(secret_trace(1, SECRET))))
        eventually(lambda: traces(server) == {id_of(1).hex()}, "a trace")
        asked = delete(server, id_of(1).hex(), "--wait", "0")
        assert asked.exit_code == 3
        assert "requested so far" in asked.stderr
        server.kill()
        server.start()
        eventually(lambda: not files_with(server, SECRET), "the deletion to be finished")
        export(server.endpoints["grpc"], payload(spans_of(secret_trace(2, SECRET))))
        eventually(lambda: id_of(2).hex() in traces(server), "another trace")
        server.stop()
        assert files_with(server, SECRET)
        shown = delete(server, id_of(2).hex())
        assert shown.exit_code == 0
        assert "Deleted 1 trace:\n  journal  3 spans" in shown.stdout
        assert files_with(server, SECRET) == []
        again = delete(server, id_of(2).hex())
        assert again.exit_code == 1
        assert "Nothing was kept of 1 trace." in again.stderr


def test_what_is_to_be_deleted_is_named_once_and_confirmed(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["traces", "delete", *arguments, "--data-dir", str(tmp_path)])
        return result.exit_code, result.output

    assert run("--yes", "--user", "a", "--session", "b")[0] == 2
    assert run("--yes")[0] == 2
    code, output = run("--yes", "--user", "a")
    assert (code, "nothing was received here" in output) == (2, True)
    (tmp_path / "journal").mkdir()
    code, output = run("--user", "a")
    assert (code, "all traces of user 'a' would be deleted for good" in output) == (2, True)
    assert not (tmp_path / "deletions").exists()
