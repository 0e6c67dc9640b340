"""What a ``serve`` without exporters connects to: nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from build.otlp import agent_span, payload, tool_span
from build.served import Server, export, served
from waiting import eventually

pytestmark = pytest.mark.long

# Python loads a module of this name in each process that it starts, the roles of `serve` too.
_NOTES_CONNECTIONS = """
import os, sys
def note(event, given):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        with open(os.environ["NOTED_CONNECTIONS"], "a") as file:
            print(event, given[1:] if event == "socket.connect" else given, file=file)
sys.addaudithook(note)
"""


def test_without_exporters_and_channels_nothing_leaves_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = tmp_path / "connections"
    (tmp_path / "sitecustomize.py").write_text(_NOTES_CONNECTIONS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("NOTED_CONNECTIONS", str(noted))
    with served(tmp_path) as server:
        export(server.endpoints["grpc"], payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order")]))
        eventually(lambda: _judged(server), "the trace to be judged")
        server.page()
    elsewhere = [line for line in _lines(noted) if not _is_here(line)]
    assert elsewhere == []
    asks = "import socket; s = socket.socket(); s.settimeout(0.01); s.connect_ex(('192.0.2.1', 9))"
    subprocess.run([sys.executable, "-c", asks], check=True)
    assert any("192.0.2.1" in line for line in _lines(noted)), "connections are noted"


def _judged(server: Server) -> bool:
    return server.metric("tracegrade_spans_total", "judge", fate="judged") == 2


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _is_here(line: str) -> bool:
    return "'127.0.0.1'" in line or "'::1'" in line or "'localhost'" in line or "socket.connect ('/" in line
