import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeline.harness import agent_span, payload, tool_span
from tracegrade.cli import main, replay
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.record import Encoding, Entry
from tracegrade.match.load import DEFAULT_RULES
from tracegrade.model.signal import Signal

CHECK, CREATE = "check_inventory", "create_order"
RULE = """\
id: create-before-check
match: {tools: [create_order]}
evaluate:
  - {evaluator: tool-call-order, tool_calls_order: [check_inventory, create_order]}
"""


@pytest.fixture
def rule(tmp_path: Path) -> str:
    path = tmp_path / "rule.yaml"
    path.write_text(RULE)
    return str(path)


def request(trace: int, *tools: str, service: str = "shop") -> bytes:
    calls = [tool_span(trace, 2 + n, 1, tool, start=10 * n + 10, end=10 * n + 15) for n, tool in enumerate(tools)]
    return payload([agent_span(trace, 1), *calls], service)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Two requests of a file, each led by its length: one trace in order, one out of order."""
    good, bad = request(1, CHECK, CREATE), request(2, CREATE, CHECK, service="other")
    path = tmp_path / "traces.binpb"
    path.write_bytes(b"".join(_varint(len(data)) + data for data in (good, bad)))
    return str(path)


def _varint(number: int) -> bytes:
    digits = b""
    while number > 127:
        digits += bytes([number & 127 | 128])
        number >>= 7
    return digits + bytes([number])


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["replay", *arguments])


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_file_is_judged_and_summed_up(rule: str, source: str) -> None:
    result = run(source, "--rules", rule)
    assert result.exit_code == 0, result.stderr
    assert "2 traces judged, 0 of them incomplete" in result.stdout
    assert "50.0%" in result.stdout
    assert "✗ fail" in result.stdout


def test_json_is_one_evaluation_a_line(rule: str, source: str) -> None:
    found = lines(run(source, "--rules", rule, "--format", "json"))
    assert [(e["trace_id"], e["outcome"], e["score"], e["run"]) for e in found] == [
        (f"{1:032x}", "pass", 1.0, "replay"),
        (f"{2:032x}", "fail", 0.5, "replay"),
    ]
    assert {e["close_reason"] for e in found} == {"end_of_input"}


def test_what_is_more_than_memory_is_for_lies_on_disk(rule: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (source, "--rules", rule, "--format", "json")
    expected = run(*arguments).stdout
    monkeypatch.setattr(replay, "_IN_MEMORY", 1)
    assert run(*arguments).stdout == expected
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    failed = run(*arguments)
    assert (failed.exit_code, failed.stdout) == (3, "")
    assert "/nowhere/at/all: No such file or directory: what is found is held there" in failed.stderr


def test_reports_hold_what_was_judged(rule: str, source: str) -> None:
    junit = run(source, "--rules", rule, "--format", "junit")
    assert '<testsuite name="create-before-check" tests="2" failures="1"' in junit.stdout
    sarif = json.loads(run(source, "--rules", rule, "--format", "sarif").stdout)
    (found,) = sarif["runs"][0]["results"]
    assert found["ruleId"] == "create-before-check"
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == rule
    markdown = run(source, "--rules", rule, "--format", "markdown", "--fail-under", "0.9")
    assert markdown.exit_code == 1
    assert "| create-before-check | 1 | 1 |  |  |" in markdown.stdout


@pytest.mark.parametrize(
    ("flags", "traces"),
    [
        (("--service", "other"), [2]),
        (("--agent", "order-agent"), [1, 2]),
        (("--agent", "nobody"), []),
        (("--trace-id", f"{1:032X}"), [1]),
        (("--since", "1970-01-01"), [1, 2]),
        (("--since", "2020-01-01"), []),
        (("--until", "1970-01-02"), [1, 2]),
    ],
)
def test_only_selected_traces_are_shown(rule: str, source: str, flags: tuple[str, ...], traces: list[int]) -> None:
    found = lines(run(source, "--rules", rule, "--format", "json", *flags))
    assert [int(str(e["trace_id"]), 16) for e in found] == traces


@pytest.mark.parametrize(("bound", "code"), [("0.5", 0), ("0.6", 1)])
def test_the_gate_fails_under_its_bound(rule: str, source: str, bound: str, code: int) -> None:
    result = run(source, "--rules", rule, "--fail-under", bound)
    assert result.exit_code == code
    assert "pass rate 0.5000 of 2 rule outcomes" in result.stderr


def test_a_gate_that_nothing_passed_or_failed_cannot_tell(rule: str, source: str) -> None:
    result = run(source, "--rules", rule, "--fail-under", "0.5", "--service", "nowhere")
    assert result.exit_code == 3
    assert "Cannot tell" in result.stderr


def test_the_journal_is_replayed_with_the_live_clock(rule: str, tmp_path: Path) -> None:
    journal = LocalJournal.open(tmp_path / "data" / "journal")
    for data in (request(1, CREATE, CHECK), request(2, CHECK, CREATE)):
        journal.append(Entry(Signal.TRACES, Encoding.PROTOBUF, "default", 3, data)).result()
    beside = run("--rules", rule, "--data-dir", str(tmp_path / "data"), "--format", "json")
    journal.close()
    assert [(e["trace_id"], e["outcome"]) for e in lines(beside)] == [(f"{1:032x}", "fail"), (f"{2:032x}", "pass")]


def test_a_folder_without_a_journal_is_said_to_have_none(rule: str, tmp_path: Path) -> None:
    result = run("--rules", rule, "--data-dir", str(tmp_path / "nothing"))
    assert result.exit_code == 2
    assert "no journal here" in result.stderr


def test_without_rules_named_the_default_ones_judge(source: str) -> None:
    judged = {row["rule_id"] for row in lines(run(source, "--format", "json"))}
    assert "same-call-repeated" in judged
    assert judged <= DEFAULT_RULES


def test_without_rules_there_is_nothing_to_judge_by(source: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("rules: {paths: []}")
    result = run(source, "-c", str(config))
    assert result.exit_code == 2
    assert "--rules PATH" in result.stderr


def test_a_wrong_rule_is_refused_with_its_place(source: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(RULE.replace("tool-call-order,", "tool-call-ordr,"))
    result = run(source, "--rules", str(path))
    assert result.exit_code == 2
    assert f"{path}:4:6: evaluate[0].evaluator: no evaluator 'tool-call-ordr'" in result.stderr
