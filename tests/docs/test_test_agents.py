"""The tests that docs/guides/test-agents.md shows, run as a reader's."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/guides/test-agents.md"
AGENT = """
from opentelemetry import trace

TRACER = trace.get_tracer("shop")


def run_my_agent(prompt):
    with TRACER.start_as_current_span("invoke_agent orders") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "orders"})
        for name in ("check_inventory", "create_order"):
            with TRACER.start_as_current_span(f"execute_tool {name}") as call:
                call.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name})


"""
RULE = """
id: create-before-check
match: {tools: [create_order]}
evaluate:
  - {evaluator: tool-call-order, tool_calls_order: [check_inventory, create_order]}
"""


def test_the_tests_of_the_page_pass_with_an_agent_that_does_right_and_fail_with_another(tmp_path: Path) -> None:
    [tests] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rule.yaml").write_text(RULE)
    (tmp_path / "test_right.py").write_text(AGENT + tests)
    (tmp_path / "test_wrong.py").write_text(AGENT.replace('"check_inventory", ', '*["create_order"] * 6, ') + tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "3 failed, 3 passed" in said
    assert said.count("FAILED test_wrong.py") == 3
