"""An evaluator that loops, raises or is killed for its memory; a store that is locked. The rest goes on."""

import json
import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from reliability.conftest import Report
from reliability.load import lost_and_doubled, send, stored, wait_until_stored
from reliability.table import Row

from build import packages
from build.otlp import agent_span, payload, tool_span
from build.served import Downstream, Server, export, exporter, served
from waiting import eventually

pytestmark = pytest.mark.long

EVALUATOR = """
import os
import signal
import sys

from tracegrade.evaluate.evaluator import Evaluator, Evidence, ParameterModel, Score


class Criteria(ParameterModel):
    pass


class Settings(ParameterModel):
    pass


def score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    names = {call.name for call in evidence.calls}
    while "loop" in names:
        pass
    if "kill" in names:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out
    if "eat" in names:
        raise MemoryError
    if "leave" in names:
        sys.exit(1)
    if "raise" in names:
        raise ZeroDivisionError
    return Score(1.0, {}, "well behaved")


EVALUATOR = Evaluator(
    name="misbehaves", summary="Does it?", Criteria=Criteria, Settings=Settings, score=score, reads=frozenset()
)
"""
WHAT = {
    "loop": "loops",
    "kill": "is killed for its memory",
    "leave": "calls sys.exit",
    "raise": "raises",
    "eat": "finds no memory",
}
RULE = "id: misbehaving\nevaluate:\n  - {evaluator: misbehaves}\n"


def send_run(server: Server, trace: int, tool: str) -> None:
    export(server.endpoints["grpc"], payload([agent_span(trace, 1), tool_span(trace, 2, 1, tool)]))


def outcomes(server: Server) -> dict[int, tuple[str, str | None]]:
    """Trace -> outcome and reason of the one evaluation."""
    shown = server.cli("results", "list", "--format", "json", "--limit", "1000", "-c", str(server.config))
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    return {int(line["trace_id"], 16): (line["outcome"], line["reason"]) for line in lines}


@pytest.mark.parametrize(
    ("tool", "restarts", "reason"),
    [
        ("loop", {"hung": 1}, "hung"),
        ("kill", {"crashed": 3}, "crashed: SIGKILL"),
        ("leave", {}, "SystemExit: 1 (acme_bad.py:26)"),
        ("raise", {}, "ZeroDivisionError (acme_bad.py:28)"),
        ("eat", {}, "MemoryError (acme_bad.py:24)"),
    ],
)
def test_an_evaluator_that_misbehaves_is_named_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, restarts: dict[str, int], reason: str, report: Report
) -> None:
    installed = tmp_path / "installed"
    packages.install(
        installed, "acme-bad", "1.0", EVALUATOR, "tracegrade.evaluators", "misbehaves = acme_bad:EVALUATOR"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "rule.yaml").write_text(RULE)
    with served(tmp_path, rules={"paths": [str(tmp_path / "rule.yaml")]}, judge={"hang_timeout": "2s"}) as server:
        for trace in range(1, 11):
            send_run(server, trace, "find")
        begun_s = time.monotonic()
        send_run(server, 11, tool)
        for trace in range(12, 22):
            send_run(server, trace, "find")
        eventually(lambda: server.metric("tracegrade_evaluations_total", "judge") >= 1, "an evaluation", 60)
        eventually(lambda: len(outcomes(server)) == 21, "every trace judged", 90)
        took_s = time.monotonic() - begun_s
        found = outcomes(server)
        assert {trace for trace, (outcome, _) in found.items() if outcome == "pass"} == set(range(1, 22)) - {11}
        assert found[11] == ("error", reason)
        counted = {
            why: server.metric("tracegrade_judge_restarts_total", "receive", reason=why) for why in ("hung", "crashed")
        }
        assert counted == {"hung": 0, "crashed": 0} | restarts
        what = WHAT[tool]
        again = ", ".join(f"{number} restart{'s' * (number > 1)} ({why})" for why, number in restarts.items())
        seen = f"error: {reason}; {again or 'no restart'}; 20 others judged"
        report(Row(f"an evaluator {what}", 1, 0, 0, took_s, seen))


def test_a_store_locked_by_another_program(tmp_path: Path, report: Report) -> None:
    downstream = Downstream()
    try:
        with served(tmp_path, exporters=exporter(downstream)) as server:
            traces = send(server, 5)
            wait_until_stored(server, traces)
            locked, unlock = threading.Event(), threading.Event()

            def lock() -> None:
                other = sqlite3.connect(server.data / "tracegrade.db", isolation_level=None, timeout=30)
                other.execute("BEGIN IMMEDIATE")
                locked.set()
                unlock.wait()
                other.execute("ROLLBACK")
                other.close()

            thread = threading.Thread(target=lock)
            thread.start()
            assert locked.wait()
            more = send(server, 40, 1000)
            eventually(lambda: lost_and_doubled(downstream, more) == (0, 0), "forwarding beside the locked store")
            time.sleep(6.0)  # longer than SQLite itself waits
            assert not set(more) & set(stored(server))
            begun_s = time.monotonic()
            unlock.set()
            thread.join()
            wait_until_stored(server, [*traces, *more])
            report(Row("the store is locked for 6 s", 1, 0, 0, time.monotonic() - begun_s, "forwarding went on"))
    finally:
        downstream.stop()
