"""SIGHUP, which a terminal sends when it is closed, and people to have files read again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from end_to_end.server import Server, export, running

from pipeline.harness import agent_span, payload, tool_span
from waiting import eventually


def test_without_a_terminal_it_ends_nothing_and_the_log_says_what_is_read_again(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        assert server.process is not None
        for process in (server.process.pid, server.judge_pid):
            os.kill(process, signal.SIGHUP)
        eventually(lambda: "SIGHUP: rules, tokens and certificates are read again" in server.log, "a line of the log")
        judge = server.judge_pid
        export(server.endpoints["grpc"], payload([agent_span(1, 1), tool_span(1, 2, 1, "create_order")]))
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") > 0, "an evaluation")
        assert server.judge_pid == judge


def test_a_terminal_that_is_closed_stops_it_in_order(tmp_path: Path) -> None:
    server = Server(tmp_path)
    terminal, its_end = os.openpty()
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(server.config)]
    process = subprocess.Popen(command, stdin=its_end, stdout=its_end, stderr=its_end, start_new_session=True)
    os.close(its_end)
    said = b""
    while b"Listening: " not in said:
        said += os.read(terminal, 4096)
    os.killpg(process.pid, signal.SIGHUP)  # its judge, too, as the kernel does
    try:
        while piece := os.read(terminal, 4096):
            said += piece
    except OSError:  # nobody has the other end any more
        pass
    os.close(terminal)
    assert process.wait(30) == 0
    assert b"Stopping: requests being handled are finished" in said
    assert b"Traceback" not in said
