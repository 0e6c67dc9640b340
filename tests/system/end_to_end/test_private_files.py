"""What is kept is its user's alone, whatever the umask of the shell that starts it."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from build.otlp import agent_span, payload, tool_span
from build.served import export, served
from waiting import eventually

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_nobody_else_can_read_a_file_of_the_data_folder(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        export(server.endpoints["grpc"], payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order")]))
        config = str(server.config)
        eventually(lambda: server.cli("traces", "list", "-c", config).stdout.count("demo-shop"), "the trace")
        urlopen(server.endpoints["web"]).close()  # its process is started by its first visitor
        assert server.cli("traces", "delete", "--yes", "--session", "unknown", "-c", config).exit_code == 1
        modes = {}
        for path in server.data.rglob("*"):
            with suppress(FileNotFoundError):  # written beside another, whose name it has by now
                modes[path.relative_to(tmp_path)] = path.stat().st_mode & 0o777
    assert server.data.stat().st_mode & 0o777 == 0o700
    open_to_others = {str(path): f"{mode:o}" for path, mode in modes.items() if mode & 0o077}
    assert not open_to_others
    assert {"tracegrade.db", "judge.heartbeat"} <= {path.name for path in modes}
