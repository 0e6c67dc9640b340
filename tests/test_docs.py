"""The documentation against the code: what exists is documented, what is shown happens."""

import ast
import contextlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from generator import api, commands, evaluators, matchers, tables
from generator.api import APIS, document

from build import each
from tracegrade import store
from tracegrade.cli import main
from tracegrade.cli.registry import COMMANDS
from tracegrade.deliver import sinks
from tracegrade.evaluate.criteria.registry import MATCHERS_BY_WORD
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.extract.registry import DIALECTS
from tracegrade.model.evaluation import Evaluation
from tracegrade.model.field_schema import record_fields
from tracegrade.otlp.prometheus import prometheus_name
from tracegrade.rule.load import load_rules
from tracegrade.store.schema import metadata
from tracegrade.telemetry.metrics import METRICS

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
}
README = PAGES["README.md"]
REFERENCE = {name.removeprefix("docs/reference/"): text for name, text in PAGES.items()}
RULES_GUIDE = PAGES["docs/guides/rules.md"]


def _section(heading: str) -> str:
    return README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@cache
def _paths(page: str) -> dict[str, Any]:
    return document(page)["paths"]


def _blocks(language: str, section: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_the_readme_is_read_in_one_go() -> None:
    assert len(README.encode()) <= 16_000


def test_the_first_two_commands_are_the_whole_set_up() -> None:
    commands = [line for block in _blocks("sh", _section("Try it")) for line in block.splitlines()]
    assert commands[:2] == [
        "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/tracegrade demo",
        "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/pytest -q",
    ]


@each("path", lambda: [path for path, *_ in tables.setting_rows()])
def test_every_setting_is_documented(path: str) -> None:
    parent, _, key = path.rpartition(".")
    text = REFERENCE["settings.md"].partition(f"# {parent}\n" if parent else "# Settings\n")[2].partition("\n#")[0]
    ((takes, default, meaning),) = re.findall(
        rf"^\| `{re.escape(key)}` \| (.+) \| (.+) \| (.+) \|$", text, re.MULTILINE
    )
    assert takes
    assert default
    assert len(meaning) > 10


@each("name", EVALUATORS)
def test_every_evaluator_is_documented(name: str) -> None:
    assert f"| [`{name}`]({name}.md) | {EVALUATORS[name].summary} |" in REFERENCE["evaluators/index.md"]


@each("name", EVALUATORS)
def test_the_page_of_an_evaluator_says_its_summary_once(name: str) -> None:
    assert REFERENCE[f"evaluators/{name}.md"].count(EVALUATORS[name].summary) == 1


@each("name", EVALUATORS)
def test_every_field_of_an_evaluator_is_documented(name: str) -> None:
    for model in (EVALUATORS[name].Criteria, EVALUATORS[name].Settings):
        for field in model.model_fields:
            assert f"| `{field}` | " in REFERENCE[f"evaluators/{name}.md"]


@each("name", EVALUATORS)
def test_every_evaluator_has_two_examples_with_different_scores(name: str) -> None:
    scores = [evaluators.judge(EVALUATORS[name], example)["score"] for example in evaluators.examples(name)]
    assert len(set(scores)) > 1


def test_no_page_is_left_of_an_evaluator_that_is_gone() -> None:
    assert {path.stem for path in evaluators.FOLDER.iterdir()} == {"index", *EVALUATORS}


def test_no_page_is_left_of_a_resource_that_is_gone() -> None:
    assert {path for path in api.FOLDER.iterdir() if path.stem != "index"} == set(api.pages())


def test_every_document_of_the_api_is_on_one_page() -> None:
    text = "".join(api.pages().values())
    for name in document("api")["components"]["schemas"]:
        assert text.count(f"\n### {name.strip('_')}\n") == 1


@each("name", DIALECTS)
def test_every_dialect_is_documented(name: str) -> None:
    assert f"| `{name}` | " in REFERENCE["dialects.md"]


@each("file", sorted(Path(next(iter(sinks.__path__))).glob("[!_]*.py")), ids=lambda file: file.stem)
def test_every_sink_is_documented(file: Path) -> None:
    assert f"| `{file.stem}` | " in REFERENCE["sinks.md"]


@each(
    ("page", "title"),
    lambda: [(page, f"{m.upper()} {path}") for page in APIS for path, by in _paths(page).items() for m in by],
)
def test_every_api_operation_is_documented(page: str, title: str) -> None:
    method, path = title.split()
    text = REFERENCE.get(f"{page}.md") or "".join(REFERENCE[name] for name in REFERENCE if name.startswith(f"{page}/"))
    assert re.search(rf"^\| {method} \| \[?`{re.escape(path)}`[^|]*\| .{{4,}} \|$", text, re.MULTILINE)
    section = re.split(r"\n##+ ", re.split(rf"\n##+ {re.escape(title)}\n", f"{text}\n## {title}\n")[1])[0]
    for parameter in _paths(page)[path][method.lower()].get("parameters", ()):
        name = parameter["name"]
        if name == "tenant":  # is said once for all operations
            assert "takes the parameter `tenant`" in text
        elif parameter["in"] != "path":  # the path shows its own
            assert re.search(rf"^\| `{name}` \| .+ \| .{{4,}} \|$", section, re.MULTILINE)


@each("name", ["View results", *(f"Table {name}" for name in metadata.tables)])
def test_every_table_is_documented(name: str) -> None:
    assert f"\n## {name}\n" in REFERENCE["store.md"]


@each("name", METRICS)
def test_every_metric_is_documented(name: str) -> None:
    assert f"| `{name}` | `{prometheus_name(name, METRICS[name])}" in REFERENCE["metrics.md"]


def test_every_command_and_option_is_documented() -> None:
    found = commands.commands()
    assert {path.split()[1] for path, _, _ in found} == set(COMMANDS)
    sections = dict(
        re.findall(
            r"^#+ (tracegrade .+?)\n\n(?:[^`\n][^\n]*\n\n)?```text\n(.*?)```",
            "".join(text for name, text in REFERENCE.items() if name.startswith("commands/")),
            re.M | re.S,
        )
    )
    for path, command, _ in found:
        for parameter in command.params:
            options = parameter.opts if isinstance(parameter, click.Option) and not parameter.hidden else []
            assert all(re.search(rf"(?<![\w-]){option}(?![\w-])", sections[path]) for option in options), path


@each("rule", lambda: load_rules(["builtin:all"]).rules, ids=lambda rule: rule.id)
def test_every_ready_made_rule_is_documented(rule) -> None:
    assert re.search(
        rf"^\| {rule.id} \| [a-z]+ \| {re.escape(rule.title)} \|", REFERENCE["ready-made-rules.md"], re.MULTILINE
    )


@each("word", [*MATCHERS_BY_WORD, "$literal"])
def test_every_matcher_is_documented_with_an_example(word: str) -> None:
    assert f"| `{word}` | " in REFERENCE["matchers.md"]
    example = matchers.EXAMPLES[word]
    assert word in json.dumps(example["expected"])
    if not example.get("needs_model"):
        assert matchers.judge(example, example["met_by"]) == 1
        assert matchers.judge(example, example["not_met_by"]) == 0


def _judged(output: str) -> list[tuple[str, str]]:
    """(outcome, rule/evaluation) of each line of the demo's table, or of the README's copy of it."""
    return re.findall(r"[✓✗!–] (pass|fail|error|not_evaluable) +\S+ +(all \d+ rules|\S+/\S+)", output)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo prints, and the store that it leaves."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "tracegrade", "demo", "--once", "--data-dir", "kept"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder / "kept" / "tracegrade.db"


def _ask(demo: tuple[str, Path], query: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(demo[1])) as connection:
        return connection.execute(query.rstrip().rstrip(";")).fetchall()


def test_the_demo_prints_and_stores_what_the_readme_shows(demo: tuple[str, Path]) -> None:
    (shown,) = [block for block in _blocks("text", _section("Try it")) if "the agent" in block]
    assert _judged(demo[0]) == _judged(shown)
    assert len(_judged(shown)) > 8
    ((query, row),) = re.findall(r"^sqlite> (.+)\n(.+)$", _section("What a result looks like"), re.MULTILINE)
    assert row in ["|".join(map(str, found)) for found in _ask(demo, query)]


def test_the_queries_shown_are_answered(demo: tuple[str, Path]) -> None:
    passed, spent = _blocks("sql", REFERENCE["store.md"])
    assert ("order-steps-out-of-order", "demo-shop", 6, 1) in _ask(demo, passed)
    assert {agent for agent, *_ in _ask(demo, spent)} == {"order-agent"}


def test_the_json_shown_has_the_fields_of_an_evaluation() -> None:
    (block,) = _blocks("json", REFERENCE["results.md"])
    shown = yaml.safe_load(block)
    rule_set = load_rules(["builtin:demo"])
    rule = rule_set.rule(shown["rule_id"])
    assert rule is not None
    assert shown["rule_hash"] == rule.hash
    fields = {field.name.partition(".")[0]: field for field in record_fields(Evaluation)}
    assert set(shown) <= set(fields)
    assert [*shown] == [name for name in fields if name in shown]


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
    (program,) = _blocks("python", RULES_GUIDE)
    trace = ROOT / "rules/demo/order-steps-out-of-order/traces/ordered_before_validated.json"
    shutil.copy(trace, tmp_path / "traces.json")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "order-steps-out-of-order fail 2 of 3 expected calls were made in the expected order" in done.stdout


def _fields_of(row: str) -> list[str]:
    (cells,) = re.findall(rf"^\|.* {row} .*\| (.+) \|$", REFERENCE["results.md"], re.MULTILINE)
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


def _links() -> list[tuple[str, str]]:
    beside_code = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for folder in ("deploy", "rules", "tests")
        for path in sorted((ROOT / folder).rglob("*.md"))
    }
    return [
        (name, link)
        for name, text in {**PAGES, **beside_code}.items()
        for link in sorted(
            set(re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)))
        )
        if not link.startswith(("http://", "https://"))
    ]


def _anchors(text: str) -> set[str]:
    """The addresses of a page's headings, as GitHub and Sphinx make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each(("page", "link"), _links)
def test_every_link_leads_somewhere(page: str, link: str) -> None:
    file, _, anchor = link.partition("#")
    path = (ROOT / page).parent / file if file else ROOT / page
    assert path.exists()
    if anchor:
        assert anchor in _anchors(path.read_text(encoding="utf-8"))


PATHS = [
    (name, path)
    for name, text in PAGES.items()
    if name == "CONTRIBUTING.md" or name.startswith(("docs/internals/", "docs/extend/"))
    for path in sorted(set(re.findall(r"`((?:\.?[a-z_]+/)+(?:[a-z_0-9]+\.py)?)`", text)))
]


@each(("page", "path"), PATHS)
def test_every_source_file_named_is_there(page: str, path: str) -> None:
    assert any((ROOT / folder / path).exists() for folder in ("", "processor/tracegrade", "tests"))


def test_the_store_says_where_each_of_its_files_is_to_be_used() -> None:
    there = {path.stem for path in Path(store.__path__[0]).iterdir() if not path.stem.startswith("_")}
    assert set(re.findall(r"`(\w+)`", store.__doc__ or "")) == there


PROMISED = sorted(
    {found for text in PAGES.values() for found in re.findall(r"`(tests/[a-z_0-9/]+\.py)(?:::(test_\w+))?`", text)}
)


@each(("file", "test"), PROMISED)
def test_every_test_named_is_there(file: str, test: str) -> None:
    names = {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)}
    assert test in names or not test


def test_every_promise_names_a_test() -> None:
    promises = re.split(r"\n(?=\d+\. \*\*)", PAGES["docs/internals/promises.md"])[1:]
    assert len(promises) == 12
    assert all("`tests/" in promise for promise in promises)
