"""A backtest beside a running `serve`: it judges what was stored when it began, and the judge goes on."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from build.journalled import with_
from build.otlp import agent_span, payload, tool_span
from build.served import Server, export, served
from waiting import eventually

pytestmark = pytest.mark.long

LIVE = """\
id: order-checked
match: {tools: [create_order]}
evaluate: [{evaluator: tool-call-count, tool_calls_count: {create_order: ['<=', 1]}}]
"""
BLUE = LIVE.replace("match: {", "match: {attributes: {team: blue}, ").replace("'<=', 1", "'<=', 0")
BEFORE, MEANWHILE = 40, 160


def send(server: Server, trace: int) -> None:
    spans = [with_(agent_span(trace, 1), team="blue"), tool_span(trace, 2, 1, "create_order")]
    export(server.endpoints["grpc"], payload(spans))


def stored(server: Server) -> int:
    shown = server.cli("results", "stats", "--format", "json", "-c", str(server.config))
    found = [json.loads(line) for line in shown.stdout.splitlines()]
    return sum(item["passed"] for item in found if item["rule_id"] == "order-checked" and not item["evaluation"])


def backtested(server: Server, rules: Path) -> dict[str, Any]:
    shown = server.cli("rules", "backtest", str(rules), "--format", "json", "-c", str(server.config))
    assert shown.exit_code == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def test_a_backtest_beside_serve_judges_what_is_stored_and_holds_nobody_up(tmp_path: Path) -> None:
    """Also from the journal, which the receiver writes meanwhile: no rule in force keeps what the changed one reads."""
    for name, text in (("live", LIVE), ("blue", BLUE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rule.yaml").write_text(text)
    with served(tmp_path, rules={"paths": [str(tmp_path / "live")]}) as server:
        for trace in range(1, 1 + BEFORE):
            send(server, trace)
        eventually(lambda: stored(server) == BEFORE, "the first traces to be stored")
        sent = threading.Event()

        def send_more() -> None:
            for trace in range(1001, 1001 + MEANWHILE):
                send(server, trace)
            sent.set()

        sender = threading.Thread(target=send_more)
        sender.start()
        found = []
        while not sent.is_set():
            found.append(backtested(server, tmp_path / "blue"))
        sender.join()
        eventually(lambda: stored(server) == BEFORE + MEANWHILE, "the judge to store all")
        found.append(backtested(server, tmp_path / "blue"))
    numbers = [item["traces"] for item in found]
    assert numbers == sorted(numbers)
    assert (numbers[0] >= BEFORE, numbers[-1]) == (True, BEFORE + MEANWHILE)
    for item in found:
        (rule,) = item["rules"]
        assert (item["from_journal"], item["not_kept"]) == (item["traces"], 0)
        assert rule["before"]["pass"] == rule["after"]["fail"] == item["traces"]
        assert rule["changes"]["newly_fails"]["subjects"] == item["traces"]
