"""SIGHUP, which a terminal sends when it is closed, and people to have files read again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from build.otlp import agent_span, payload, tool_span
from build.served import Server, export, served
from waiting import eventually

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _as_a_shell_starts_it() -> Iterator[None]:
    """SIGHUP is not ignored, though it is where these tests run under nohup: processes inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def _judged(server: Server, trace: int) -> None:
    """Send a trace, and wait until there are more evaluations."""
    before = server.metric("tracegrade_evaluations_total", "judge")
    export(server.endpoints["grpc"], payload([agent_span(trace, 1), tool_span(trace, 2, 1, "create_order")]))
    eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") > before, "an evaluation")


def test_without_a_terminal_it_ends_nothing_and_the_log_says_what_is_read_again(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert server.process is not None
        judge = server.judge_pid
        _judged(server, 1)  # so it is past its start, in which it knows no signals yet
        for process in (server.process.pid, judge):
            os.kill(process, signal.SIGHUP)
        eventually(lambda: "SIGHUP: rules, tokens and certificates are read again" in server.log, "a line of the log")
        _judged(server, 2)
        assert server.judge_pid == judge


def test_a_terminal_that_is_closed_stops_it_in_order(tmp_path: Path) -> None:
    server = Server(tmp_path)
    terminal, its_end = os.openpty()
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(server.config)]
    process = subprocess.Popen(command, stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True)
    os.close(its_end)
    try:
        said = b""
        while b"Listening: " not in said:
            said += os.read(terminal, 4096)
        os.killpg(process.pid, signal.SIGHUP)  # its judge, too, as the kernel does
        with suppress(OSError):  # nobody has the other end any more
            while piece := os.read(terminal, 4096):
                said += piece
        os.close(terminal)
        assert process.wait() == 0
    finally:
        process.kill()
    assert b"Stopping: requests being handled are finished" in said
    assert b"Traceback" not in said
