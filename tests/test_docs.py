"""The README against the code: what exists is documented, what is shown happens."""

import ast
import contextlib
import io
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from cogapp import Cog

import readme_tables
from tracegrade.cli import COMMANDS, main
from tracegrade.deliver import sinks
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.extract.registry import DIALECTS
from tracegrade.match.load import load_rules
from tracegrade.model.evaluation import Evaluation
from tracegrade.otlp.metrics import prometheus_name
from tracegrade.telemetry import METRICS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
HEADINGS = (
    "Try it",
    "What a result looks like",
    "Write a rule",
    "Run it for real",
    "One span, file by file",
    "Promises",
    "Rule files",
    "Matchers",
    "Alerts",
    "Evaluators",
    "Ready-made rules",
    "Dialects",
    "Sinks",
    "Settings",
    "Metrics",
    "JSON API",
    "Deleting data",
    "Commands",
    "Limits",
    "Changes",
)


def _section(heading: str) -> str:
    return README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def _blocks(language: str, section: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_the_readme_has_its_parts_in_order() -> None:
    assert tuple(re.findall(r"^## (.+)$", README, re.MULTILINE)) == HEADINGS


def test_the_generated_blocks_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = Cog().main(["cog", "--check", "README.md"])
    assert code == 0, f"run 'cog -r README.md'\n{said.getvalue()}"


def test_the_first_two_commands_are_the_whole_set_up() -> None:
    commands = [line for block in _blocks("sh", _section("Try it")) for line in block.splitlines()]
    assert commands[:2] == [
        "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/tracegrade demo",
        "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/pytest -q",
    ]


@pytest.mark.parametrize("key", readme_tables.setting_keys())
def test_every_setting_is_documented(key: str) -> None:
    (row,) = re.findall(rf"^\| {re.escape(key)} \| (.+) \| (.+) \|$", _section("Settings"), re.MULTILINE)
    default, meaning = row
    assert default
    assert len(meaning) > 10


@pytest.mark.parametrize("name", EVALUATORS)
def test_every_evaluator_is_documented(name: str) -> None:
    assert f"| `{name}` | {EVALUATORS[name].summary} |" in _section("Evaluators")


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_is_documented(name: str) -> None:
    assert f"| `{name}` | " in _section("Dialects")


@pytest.mark.parametrize("file", sorted(Path(next(iter(sinks.__path__))).glob("[!_]*.py")), ids=lambda file: file.stem)
def test_every_sink_is_documented(file: Path) -> None:
    assert f"| `{file.stem}` | " in _section("Sinks")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_documented(name: str) -> None:
    assert f"| `{name}` | `{prometheus_name(name, METRICS[name])}" in _section("Metrics")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    assert f"<code>tracegrade {name}</code>" in _section("Commands")


@pytest.mark.parametrize("rule", load_rules(["builtin:all"]).rules, ids=lambda rule: rule.id)
def test_every_ready_made_rule_is_documented(rule) -> None:
    assert re.search(
        rf"^\| {rule.id} \| [a-z]+ \| {re.escape(rule.title)} \|", _section("Ready-made rules"), re.MULTILINE
    )


def _judged(output: str) -> list[tuple[str, str]]:
    """(outcome, rule/evaluation) of each line of the demo's table, or of the README's copy of it."""
    return re.findall(r"[✓✗!–] (pass|fail|error|not_evaluable) +\S+ +(all \d+ rules|\S+/\S+)", output)


def test_the_demo_prints_and_stores_what_the_readme_shows(tmp_path: Path) -> None:
    (shown,) = [block for block in _blocks("text", _section("Try it")) if "the agent" in block]
    demo = [sys.executable, "-m", "tracegrade", "demo", "--once", "--data-dir", str(tmp_path)]
    done = subprocess.run(demo, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert _judged(done.stdout) == _judged(shown)
    assert len(_judged(shown)) > 8
    (sql,) = re.findall(r"^sqlite> (.+)\n(.+)$", _section("What a result looks like"), re.MULTILINE)
    query, row = sql
    with contextlib.closing(sqlite3.connect(tmp_path / "tracegrade.db")) as connection:
        assert row in ["|".join(map(str, found)) for found in connection.execute(query.rstrip(";"))]


def test_the_json_shown_has_the_fields_of_an_evaluation() -> None:
    (block,) = _blocks("json", _section("What a result looks like"))
    shown = yaml.safe_load(block)
    rule_set = load_rules(["builtin:demo"])
    rule = rule_set.rule(shown["rule_id"])
    assert rule is not None
    assert shown["rule_hash"] == rule.hash
    described = set(re.findall(r'"(\w+)":', (ROOT / "processor/tracegrade/model/evaluation.py").read_text()))
    assert set(shown) <= described | set(Evaluation.__slots__)


@pytest.fixture
def example_rules(tmp_path: Path) -> Path:
    """The README's rule and its tests, beside the traces that they name."""
    folder = tmp_path / "rules" / "order-created-twice"
    traces = ROOT / "rules" / "demo" / "order-not-confirmed" / "traces"
    shutil.copytree(traces, folder / "traces")
    rule, tests = _blocks("yaml", _section("Write a rule"))
    (folder / "rule.yaml").write_text(rule)
    (folder / "tests.yaml").write_text(tests)
    return tmp_path / "rules"


def test_the_rule_shown_does_what_is_said(example_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example_rules.parent)
    run = CliRunner().invoke
    said = " ".join(_section("Write a rule").split())
    assert " ".join(run(main, ["rules", "check", "rules"]).output.split()) in said
    tested = run(main, ["rules", "test", "rules"])
    assert tested.exit_code == 0
    for line in tested.output.splitlines():
        assert "───" in line or " ".join(line.split()) in said
    rule = example_rules / "order-created-twice" / "rule.yaml"
    rule.write_text(rule.read_text().replace("tool-call-count\n", "tool-call-counts\n"))
    assert " ".join(run(main, ["rules", "check", "rules"]).stderr.split()) in said


def test_the_python_shown_runs(tmp_path: Path) -> None:
    (program,) = _blocks("python", _section("Write a rule"))
    trace = ROOT / "rules/demo/order-steps-out-of-order/traces/ordered_before_validated.json"
    shutil.copy(trace, tmp_path / "traces.json")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "order-steps-out-of-order fail 2 of 3 expected calls in the expected order" in done.stdout


def _fields_of(row: str) -> list[str]:
    (cells,) = re.findall(rf"^\|.* {row} .*\| (.+) \|$", _section("Commands"), re.MULTILINE)
    return re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", cells))


def test_the_fields_of_json_lines_are_documented() -> None:
    trace = ROOT / "rules/demo/order-steps-out-of-order/traces/ordered_before_validated.json"
    extracted = json.loads(CliRunner().invoke(main, ["extract", str(trace), "--format", "json"]).output)
    assert list(extracted) == _fields_of("`extract`")
    assert list(extracted["tool_calls"][0]) == _fields_of("each of its `tool_calls`")
    evaluate = [
        "evaluate",
        "tool-call-order",
        "--criteria",
        '{"tool_calls_order": ["a"]}',
        "--calls",
        "[]",
        "--format",
        "json",
    ]
    assert list(json.loads(CliRunner().invoke(main, evaluate).output)) == _fields_of("`evaluate`")


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_every_file_linked_is_there(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", _section("One span, file by file"))))
)
def test_every_source_file_named_is_there(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "processor" / "tracegrade" / path).exists()


PROMISED = sorted(set(re.findall(r"`(tests/[a-z_/]+\.py)(?:::(test_\w+))?`", README)))


@pytest.mark.parametrize(("file", "test"), PROMISED)
def test_every_test_named_is_there(file: str, test: str) -> None:
    names = {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)}
    assert test in names or not test


def test_every_promise_names_a_test() -> None:
    promises = re.split(r"\n(?=\d+\. \*\*)", _section("Promises").partition("<!--")[0])[1:]
    assert len(promises) == 12
    assert all("`tests/" in promise for promise in promises)
