"""Dialects that installed packages add: each test installs one into a folder of its own.

What comes into force does so for the rest of a process: such tests start an interpreter.
"""

import json
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from build import packages
from build.packages import run, run_commands
from tracegrade.cli import main
from tracegrade.config import Config
from tracegrade.model.errors import TraceGradeError
from tracegrade.plugins.installed import load_plugins

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extend" / "dialect.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(PROJECT,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)

SPANS = [
    {"name": "agent", "own.kind": "agent", "own.agent": "planner"},
    {"name": "step", "own.kind": "tool", "own.tool": "find", "own.args": '{"q": "x"}', "own.result": "[1]"},
]


def install(folder: Path, source: str, entry_point: str = "", version: str = "1.2") -> None:
    """A package with one module, acme_tracing, and the example's entry point unless another is given."""
    ((group, members),) = tomllib.loads(PROJECT)["project"]["entry-points"].items()
    value = entry_point or " = ".join(*members.items())
    packages.install(folder, "acme-tracing", version, source, group, value)


@pytest.fixture
def traces(tmp_path: Path) -> str:
    spans = [
        {
            "traceId": f"{1:032x}",
            "spanId": f"{number:016x}",
            **({"parentSpanId": f"{1:016x}"} if number > 1 else {}),
            "name": span["name"],
            "startTimeUnixNano": str(number),
            "endTimeUnixNano": str(10 - number),
            "attributes": [
                {"key": key, "value": {"stringValue": value}} for key, value in span.items() if key != "name"
            ],
        }
        for number, span in enumerate(SPANS, 1)
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "acme"}, "spans": spans}]}]}))
    return str(path)


def test_without_the_package_its_spans_are_read_by_shape(traces: str) -> None:
    done = CliRunner().invoke(main, ["extract", traces, "--format", "json"])
    (call,) = json.loads(done.stdout)["tool_calls"]
    assert (call["name"], call["dialect"]) == ("find", "shape")


def test_the_example_reads_its_spans(tmp_path: Path, traces: str) -> None:
    install(tmp_path / "site", EXAMPLE)
    done = run(tmp_path / "site", "-m", "tracegrade", "extract", traces, "--format", "json")
    assert done.returncode == 0, done.stderr
    trace = json.loads(done.stdout)
    (call,) = trace["tool_calls"]
    assert trace["agents"] == ["planner"]
    assert (call["name"], call["arguments"], call["output"], call["dialect"]) == ("find", {"q": "x"}, [1], "own")


def test_importing_loads_none(tmp_path: Path) -> None:
    install(tmp_path / "site", "import nowhere")
    program = (
        "import sys, tracegrade.extract.extract, tracegrade.assemble.decode\nprint('importlib.metadata' in sys.modules)"
    )
    assert run(tmp_path / "site", "-c", program).stdout == "False\n"


def test_the_library_reads_them_too_and_its_own_keys_come_first_on_its_own_spans(tmp_path: Path, traces: str) -> None:
    install(tmp_path / "site", EXAMPLE)
    program = """
import sys
sys.path.insert(0, sys.argv[2])
import tracegrade
from tracegrade.extract.extract import extract
(read,) = tracegrade.read_traces(sys.argv[1:2])
print([call.name for call in extract(read).calls])
from build.traces import trace
both = {"own.tool": "own", "own.args": '{"own": 1}', "gen_ai.tool.name": "other", "input.value": '{"other": 1}'}
spans = [{"id": n, "attributes": {**both, **mark}} for n, mark in ((1, {"own.kind": "tool"}), (2, {}))]
print([(call.name, call.arguments) for call in extract(trace(spans)).calls])
"""
    done = run(tmp_path / "site", "-c", program, traces, str(ROOT / "tests"))
    assert done.stdout.splitlines() == ["['find']", "[('own', {'own': 1}), ('other', {'other': 1})]"], done.stderr


def test_redaction_and_readers_without_values_know_its_keys(tmp_path: Path) -> None:
    # Words that nothing but the dialect says are arguments, an output or a name.
    renamed = (
        EXAMPLE.replace("own.args", "own.given").replace("own.result", "own.gave").replace("own.tool", "own.which")
    )
    install(tmp_path / "site", renamed)
    program = """
from build.redaction import attributes_of, one_span, redacted
from build.traces import span
from tracegrade.access.caller import Caller
from tracegrade.web.masked import seen_by
written = {"own.kind": "tool", "own.which": "find", "own.given": '{"q": "x"}', "own.gave": "[1]", "own.more": "y"}
def left(**settings):
    found = attributes_of(redacted(one_span(**written), detectors=[], **settings))
    return [key for key in written if found.get(key) == written[key]]
print(left(default="allow_listed"))
print(left(places=[{"arguments": "*", "action": "drop"}]))
print(left(places=[{"outputs": "*", "action": "drop"}]))
shown = seen_by(Caller(frozenset({"read"})), span(1, attributes=written)).attributes
print([key for key in written if shown[key] == written[key]])
"""
    program = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\n" + program
    assert run(tmp_path / "site", "-c", program).stdout.splitlines() == [
        "['own.kind', 'own.which']",
        "['own.kind', 'own.which', 'own.gave', 'own.more']",
        "['own.kind', 'own.which', 'own.given', 'own.more']",
        "['own.kind', 'own.which']",
    ]


def test_name_and_version_are_part_of_the_settings_hash(tmp_path: Path) -> None:
    program = "from tracegrade.config import Config; print(Config().settings_hash)"
    hashes = [f"{Config().settings_hash}\n"]
    for version in ("1.2", "1.3"):
        install(tmp_path / version, EXAMPLE, version=version)
        hashes.append(run(tmp_path / version, "-c", program).stdout)
    assert all(hashes)
    assert len(set(hashes)) == 3


OTHER_NAME = EXAMPLE.replace('name="own"', 'name="other"')
BROKEN = [
    pytest.param("import nowhere", "acme_tracing:DIALECT", "cannot be imported: ModuleNotFoundError: ", id="import"),
    pytest.param(EXAMPLE, "acme_tracing:DIALEKT", "cannot be imported: AttributeError: ", id="no such name"),
    pytest.param("DIALECT = {}", "acme_tracing:DIALECT", "expected a tracegrade.extract.reading.Dialect", id="kind"),
    pytest.param(OTHER_NAME, "acme_tracing:DIALECT", "found the name 'other'", id="another name"),
    pytest.param(
        EXAMPLE.replace('("own.tool",)', '"own.tool"'),
        "acme_tracing:DIALECT",
        "keys.tool_name: expected a tuple of non-empty texts, found 'own.tool'",
        id="a text for texts",
    ),
    pytest.param(
        EXAMPLE.replace('frozenset({"own.kind"})', "frozenset()"),
        "acme_tracing:DIALECT",
        "expected marks, the attribute keys by which its spans are known, found none",
        id="no marks",
    ),
]


@pytest.mark.parametrize(("source", "value", "found"), BROKEN)
def test_a_package_that_cannot_be_used_is_named(tmp_path: Path, source: str, value: str, found: str) -> None:
    install(tmp_path, source, f"own = {value}")
    told = refused(tmp_path)
    assert told.startswith(f"entry point own = {value} (tracegrade.dialects) of acme-tracing 1.2: ")
    assert found in told
    assert told.endswith("; fix or uninstall acme-tracing")


def refused(folder: Path) -> str:
    """What is said of the package in `folder`."""
    load_plugins.cache_clear()
    with packages.found_here(folder), pytest.raises(TraceGradeError) as raised:
        load_plugins()
    return str(raised.value)


def test_no_command_that_reads_traces_starts_with_one(tmp_path: Path) -> None:
    install(tmp_path, "import nowhere")
    commands = "extract no.json", "serve", "rules test builtin:demo", "traces show 0123"
    for ran in run_commands(tmp_path, *commands):
        assert (ran.exit_code, ran.stdout) == (2, "")
        *_, error = ran.stderr.splitlines()  # serve says first which version it is
        assert error.startswith("Error: entry point own = acme_tracing:DIALECT")
        assert error.endswith("; fix or uninstall acme-tracing")


def test_a_dialect_of_ours_cannot_be_replaced(tmp_path: Path) -> None:
    install(tmp_path, EXAMPLE.replace('name="own"', 'name="gen_ai"'), "gen_ai = acme_tracing:DIALECT")
    assert "the name 'gen_ai' is taken by a dialect that TraceGrade has" in refused(tmp_path)


def test_a_dialect_that_raises_costs_the_trace_the_dialects_of_packages_and_no_more(
    tmp_path: Path, traces: str
) -> None:
    raising = EXAMPLE.replace('span.attributes.get("own.kind")', 'span.attributes["x"]')
    assert raising != EXAMPLE
    install(tmp_path / "site", raising)
    done = run(tmp_path / "site", "-m", "tracegrade", "extract", traces)
    assert done.returncode == 0, done.stderr
    assert "no tool calls in 1 trace" in done.stdout
    assert "one of which raised KeyError: 'x' (" in done.stdout
    assert "acme_tracing.py:" in done.stdout


def test_a_dialect_that_gives_no_kind_of_span_is_named(tmp_path: Path, traces: str) -> None:
    install(tmp_path / "site", EXAMPLE.replace('{"tool": "tool"', '{"tool": "tools"'))
    done = run(tmp_path / "site", "-m", "tracegrade", "extract", traces)
    assert done.returncode == 0, done.stderr
    assert "no tool calls in 1 trace" in done.stdout
    assert "classify of dialect 'own': expected None or one of tool, chat, " in done.stdout
    assert "found 'tools'" in done.stdout
