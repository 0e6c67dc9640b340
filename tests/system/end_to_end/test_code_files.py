"""The code beside a rule judges live, and is read again when it changes."""

import json
from pathlib import Path

import pytest

from build.code_files import EVALUATOR, changed, write_rule
from build.otlp import agent_span, payload, tool_span
from build.served import Server, export, served
from waiting import eventually

pytestmark = pytest.mark.long


def judged(server: Server, trace: int) -> tuple[str, str | None]:
    """The outcome and the reason of the one evaluation of a trace with two calls, sent now."""
    calls = [tool_span(trace, number, 1, "pay") for number in (2, 3)]
    export(server.endpoints["grpc"], payload([agent_span(trace, 1), *calls]))

    def of_trace() -> list[tuple[str, str | None]]:
        shown = server.cli("results", "list", "--format", "json", "-c", str(server.config))
        lines = [json.loads(line) for line in shown.stdout.splitlines()]
        return [(line["outcome"], line["reason"]) for line in lines if int(line["trace_id"], 16) == trace]

    (found,) = eventually(of_trace, "the result of the trace", 60)
    return found


def test_code_beside_a_rule_judges_and_is_read_again(tmp_path: Path) -> None:
    code = write_rule(tmp_path / "rules").with_name("few_calls.py")
    rules = {"paths": [str(tmp_path / "rules")], "reload": "200ms", "allow_code": True}
    with served(tmp_path, rules=rules) as server:
        eventually(lambda: f"Code of rules, which runs here: {code}." in server.log, "what runs to be named")
        assert judged(server, 1) == ("fail", "")
        code.write_text("nowhere\n")
        eventually(lambda: "rules_refused: " in server.log, "the condition")
        assert "./few_calls.py:1: cannot be loaded: NameError: name 'nowhere' is not defined" in server.log
        assert judged(server, 2) == ("fail", "")
        code.write_text(changed("found = len(", "found = sum("))
        eventually(lambda: "the rules have changed: 1 in force" in server.log, "the changed code")
        assert judged(server, 3) == (
            "error",
            "TypeError: unsupported operand type(s) for +: 'int' and 'ToolCall' (./few_calls.py:19)",
        )
        code.write_text(EVALUATOR)
        eventually(lambda: server.log.count("the rules have changed: 1 in force") == 2, "the mended code")
        assert judged(server, 4) == ("fail", "")
