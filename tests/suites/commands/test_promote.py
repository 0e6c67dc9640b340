"""``tracegrade promote --suite``: recorded traces become cases of a suite."""

import json
from pathlib import Path

from click.testing import CliRunner

from cli.test_promote import conversation, promote, record, trace_id
from tracegrade.cli import main


def test_a_passing_trace_becomes_a_case_of_a_suite(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1))
    path = tmp_path / "support.json"
    result = promote(rule, trace_id(1), chosen=("--suite", str(path)))
    assert result.exit_code == 0, result.output
    assert json.loads(path.read_text())["test_cases"] == [
        {
            "id": f"trace-{trace_id(1)}",
            "prompt": "Write to the customer.",
            "expected_tool": "send_mail",
            "expected_params": {"to": "user1@example.com", "text": "Dear user1@example.com"},
            "multi_turn": True,
            "valid_prerequisites": ["look_up"],
            "optimal_hops": 2,
        }
    ]
    before = path.read_bytes()
    assert "is a case already" in promote(rule, trace_id(1), chosen=("--suite", str(path))).output
    assert path.read_bytes() == before
    result = CliRunner().invoke(main, ["rules", "import", str(path), "--in", str(tmp_path / "made")])
    assert result.exit_code == 0, result.output


def test_a_failing_trace_becomes_a_case_that_expects_what_the_rule_does(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1, "bob@acme.io"))
    path = tmp_path / "support.json"
    result = promote(rule, trace_id(1), chosen=("--suite", str(path)))
    assert result.exit_code == 2
    assert "give --rule mailed-before-looked-up to expect what that rule does" in result.output
    assert not path.exists()
    chosen = ("--suite", str(path), "--rule", "mailed-before-looked-up")
    assert promote(rule, trace_id(1), chosen=chosen).exit_code == 0
    (case,) = json.loads(path.read_text())["test_cases"]
    assert case == {"id": f"trace-{trace_id(1)}", "prompt": "Write to the customer.", "expected_tool": "send_mail"}


def test_a_rule_that_names_no_calls_makes_no_case(tmp_path: Path, rule: Path) -> None:
    rule.write_text("id: mailed-before-looked-up\nevaluate: [{evaluator: abstention, should_call_tool: false}]\n")
    record(tmp_path, rule, conversation(1))
    chosen = ("--suite", str(tmp_path / "support.json"), "--rule", "mailed-before-looked-up")
    result = promote(rule, trace_id(1), chosen=chosen)
    assert result.exit_code == 2
    assert "names no calls that it expects" in result.output


def test_only_traces_of_the_tenant_that_is_named_become_cases(tmp_path: Path, rule: Path) -> None:
    record(tmp_path, rule, conversation(1), tenant="mine")
    cases = promote(rule, trace_id(1), "--tenant", "hers", "--suite", "mails", chosen=())
    assert (cases.exit_code, cases.output.count("is not in the store for tenant 'hers'")) == (2, 1)
