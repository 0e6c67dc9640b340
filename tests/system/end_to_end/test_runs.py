"""``tracegrade replay --experiment`` beside a running serve: what it stores, and that nobody else sees it."""

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from build.otlp import payload, spans_of
from build.served import Server, export, served
from build.served_folder import id_of, secret_trace
from tracegrade.cli import main
from waiting import eventually

pytestmark = pytest.mark.long

SECRET = "the-marker-that-must-go"


def command(server: Server, *arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, [*arguments, "--format", "json", "-c", str(server.config)])
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def traces(server: Server, *options: str) -> set[str]:
    return {head["trace_id"] for head in command(server, "traces", "list", *options)}


def api(server: Server, path: str) -> str:
    with urlopen(f"{server.endpoints['web']}/api/v1/{path}") as response:
        return str(response.read().decode())


def results_in(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("tracegrade_evaluations_total")]


def test_a_run_is_stored_beside_a_running_serve_and_a_deletion_reaches_it(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        spans = spans_of(secret_trace(1, SECRET)) + spans_of(secret_trace(2, "other"))
        export(server.endpoints["grpc"], payload(spans))
        both = {id_of(1).hex(), id_of(2).hex()}
        listing = ("traces", "list", "-c", str(server.config))
        eventually(lambda: server.cli(*listing).exit_code == 0, "a store")
        eventually(lambda: traces(server) == both, "two traces")
        eventually(lambda: results_in(server.page()), "their results in metrics")
        before = (api(server, "traces"), api(server, "results"), results_in(server.page()))
        printed = command(server, "replay", "--rules", "builtin:demo", "--experiment", "tuning", "--label", "a=b")
        assert {item["run"] for item in printed} == {"tuning/1"}
        assert traces(server, "--run", "tuning/1") == both
        assert (api(server, "traces"), api(server, "results"), results_in(server.page())) == before
        (deleted,) = command(server, "traces", "delete", id_of(1).hex(), "--yes")
        assert (deleted["state"], deleted["deleted"]["traces"]) == ("done", 2)
        assert traces(server, "--run", "tuning/1") == traces(server) == {id_of(2).hex()}
        (shown,) = command(server, "experiments", "show", "tuning/1")
        assert (shown["state"], shown["traces"], shown["labels"]) == ("complete", 1, {"a": "b"})
        assert [path for path in server.data.rglob("*.db*") if SECRET.encode() in path.read_bytes()] == []
