"""What looks wrong in the rules is said where they are taken into force."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

RULE = """\
id: looks-wrong
match: {prompt: "refund*"}
evaluate: [{evaluator: tool-call-order, tool_calls_order: [refund]}]
"""


@pytest.mark.parametrize(("role", "warned"), [("all", True), ("receive", False)])
def test_the_start_warns_where_rules_judge(tmp_path: Path, role: str, warned: bool) -> None:
    rule, config = tmp_path / "one.rule.yaml", tmp_path / "config.yaml"
    rule.write_text(RULE)
    # A file in the place of the folder: the start goes no further than the rules, and binds no port.
    (tmp_path / "data").write_text("")
    config.write_text(json.dumps({"data_dir": str(tmp_path / "data"), "rules": {"paths": [str(rule)]}}))
    command = [sys.executable, "-m", "tracegrade", "serve", "-c", str(config), "--role", role]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.count("data_dir: cannot use")) == (2, 1), ended.stderr
    warnings = [line for line in ended.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warnings) == warned
    assert all(line.startswith(f"Warning: {rule}:2:9: match.prompt: 'refund*' looks like a glob") for line in warnings)
