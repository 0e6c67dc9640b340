"""A file of which a span cannot be read: every command that reads files says so, and no gate passes over it."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import tracegrade
from build import each
from build.replayed import CHECK, CREATE, request, write_rule
from build.without_parts import of_all_parts
from tracegrade.cli import main
from tracegrade.otlp.json import to_json

PROBLEM = "span '0000000000000003': $.kind: expected an enum's number or name, found 'ROBOT'"
SAID = f"1 span was not read: {PROBLEM}"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A trace that passes the rule; its second call cannot be read."""
    document = to_json(ExportTraceServiceRequest.FromString(request(1, CHECK, CREATE, CREATE)))
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][2]["kind"] = "ROBOT"  # type: ignore[index, call-overload]
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "damaged.json").write_text(json.dumps(document))
    return str(folder / "damaged.json")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@of_all_parts
def test_every_command_that_reads_files_says_what_it_did_not_read(source: str, tmp_path: Path) -> None:
    rule = write_rule(tmp_path)
    commands = {
        "extract": ("extract", source),
        "replay": ("replay", source, "--rules", rule),
        "rules try": ("rules", "try", rule, source),
        "baseline save": ("baseline", "save", "b", source, "--rules", rule, "-o", str(tmp_path / "b.json")),
        "redact": ("redact", source, "--dry-run"),
    }
    found = {name: run(*arguments) for name, arguments in commands.items()}
    silent = {name: done.stderr for name, done in found.items() if f"Warning: {source}: {SAID}" not in done.stderr}
    assert silent == {}
    assert {name: done.exit_code for name, done in found.items()} == dict.fromkeys(commands, 0)


def test_json_says_it_too(source: str, tmp_path: Path) -> None:
    rule = write_rule(tmp_path)
    extracted, tried = run("extract", source, "--format", "json"), run("rules", "try", rule, source, "--format", "json")
    rows = [json.loads(line) for done in (extracted, tried) for line in done.stdout.splitlines()]
    assert {row["not_read"] for row in rows} == {1}
    assert json.loads(extracted.stderr) == {
        "file": source,
        "read_as": ["OTLP/JSON"],
        "not_read": 1,
        "problems": [PROBLEM],
        "repaired_texts": 0,
        "remarks": [],
        "message": f"{source}: {SAID}",
    }


def test_a_gate_cannot_tell(source: str, tmp_path: Path) -> None:
    asked = ("replay", source, "--rules", write_rule(tmp_path), "--fail-under", "1", "--min-results", "1")
    done = run(*asked)
    assert done.exit_code == 3
    assert f"Cannot tell: {source}: {SAID}." in done.stderr
    last = json.loads(run(*asked, "--format", "json").stderr.splitlines()[-1])
    assert (last["gate"], last["reasons"][0]) == ("cannot_tell", f"{source}: {SAID}")
    assert_every_report_says_it(*asked)


def assert_every_report_says_it(*asked: str) -> None:
    """A report is read without standard error and the exit code."""
    suites = ElementTree.fromstring(run(*asked, "--format", "junit").stdout)
    assert (suites.get("failures"), suites.get("skipped")) == ("0", "1")
    assert [SAID in str(skipped.get("message")) for skipped in suites.iter("skipped")] == [True]
    (sarif,) = json.loads(run(*asked, "--format", "sarif").stdout)["runs"]
    (told,) = sarif["invocations"][0]["toolExecutionNotifications"]
    assert (told["level"], SAID in told["message"]["text"]) == ("warning", True)
    assert SAID in run(*asked, "--format", "markdown").stdout


@of_all_parts
def test_a_comparison_cannot_tell_either(source: str, tmp_path: Path) -> None:
    rule, saved, whole = write_rule(tmp_path), str(tmp_path / "b.json"), tmp_path / "whole.jsonl"
    asked = [asked_for(f"prompt {trace}", request(trace, CHECK, CREATE)) for trace in range(1, 30)]
    whole.write_text("\n".join(asked))
    assert run("baseline", "save", "b", str(whole), "--rules", rule, "-o", saved).exit_code == 0
    compared = ("--rules", rule, "--compare", saved, "--margin", "0.5")
    assert run("replay", str(whole), *compared).exit_code == 0
    whole.write_text("\n".join([*asked, Path(source).read_text()]))
    done = run("replay", str(whole), *compared)
    assert (done.exit_code, SAID in done.stderr) == (3, True)
    assert done.stdout.splitlines()[-1] == "Cannot tell: 1 rule not worse."
    assert_every_report_says_it("replay", str(whole), *compared)


def asked_for(prompt: str, request: bytes) -> str:
    """A request whose agent was given a prompt."""
    message = ExportTraceServiceRequest.FromString(request)
    messages = [{"role": "user", "parts": [{"type": "text", "content": prompt}]}]
    agent = message.resource_spans[0].scope_spans[0].spans[0]
    agent.attributes.add(key="gen_ai.input.messages").value.string_value = json.dumps(messages)
    return json.dumps(to_json(message))


def test_what_fails_anyway_fails(source: str, tmp_path: Path) -> None:
    document = json.loads(Path(source).read_text())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[1]["kind"], spans[2]["kind"] = "ROBOT", 1
    Path(source).write_text(json.dumps(document))
    done = run("replay", source, "--rules", write_rule(tmp_path), "--fail-under", "1", "--min-results", "1")
    assert done.exit_code == 1
    assert "Gate failed: 1 rule under 1" in done.stderr
    assert "1 span was not read" in done.stderr


def test_a_rule_test_does_not_hold_on_a_trace_that_is_not_read_whole(source: str, tmp_path: Path) -> None:
    tests = "- {description: t, trace: damaged.json, expect: {tool-call-order: pass}}\n"
    (tmp_path / "tests.yaml").write_text(tests)
    done = run("rules", "test", write_rule(tmp_path))
    assert done.exit_code == 1
    assert "1 span was not read: span" in done.stdout


def test_the_library_warns(source: str) -> None:
    with pytest.warns(UserWarning, match="1 span was not read"):
        assert len(tracegrade.read_traces([source])) == 1


EMPTY = {
    "an empty file": ("empty.json", "the file is empty"),
    "a list without spans": ("without.json", "no spans in it"),
    "metrics": ("metrics.json", "metrics alone"),
    "a folder without files of traces": ("folder", "no name in this folder ends in one of .bin"),
    "spans that cannot be read": ("unreadable.json", "1 span was not read: span '0000000000000003': $.kind: expected"),
    "a folder of files without traces": ("notes", "no spans in it"),
}


@of_all_parts
@each("name", list(EMPTY))
def test_every_command_ends_with_3_where_nothing_was_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty.json").touch()
    (tmp_path / "without.json").write_text('{"resourceSpans": []}')
    metric = {"name": "m", "sum": {"dataPoints": [{"asInt": "1"}]}}
    (tmp_path / "metrics.json").write_text(json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}))
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "package.json").write_text('{"name": "x"}')
    document = to_json(ExportTraceServiceRequest.FromString(request(1, CHECK)))
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]  # type: ignore[index, call-overload]
    spans[:] = [dict(spans[0], spanId="0000000000000003", kind="ROBOT")]
    (tmp_path / "unreadable.json").write_text(json.dumps(document))
    source, rule = str(tmp_path / EMPTY[name][0]), write_rule(tmp_path)
    commands = {
        "extract": ("extract", source),
        "extract as JSON": ("extract", source, "--format", "json"),
        "replay": ("replay", source, "--rules", rule),
        "replay with a gate": ("replay", source, "--rules", rule, "--fail-under", "0.5"),
        "rules try": ("rules", "try", rule, source),
        "baseline save": ("baseline", "save", "b", source, "--rules", rule, "-o", str(tmp_path / "b.json")),
    }
    if name != "metrics":  # in which there is something to redact
        commands["redact"] = ("redact", source, "--dry-run")
    inside = "/package.json" if name == "a folder of files without traces" else ""
    said = f"Error: no trace was read: {source}{inside}: {EMPTY[name][1]}"
    found = {name: run(*arguments) for name, arguments in commands.items()}
    assert {name: done.stderr for name, done in found.items() if said not in done.stderr} == {}
    assert {name: done.exit_code for name, done in found.items()} == dict.fromkeys(commands, 3)
    assert not (tmp_path / "b.json").exists()
    with pytest.warns(UserWarning, match="no trace was read"):
        assert tracegrade.read_traces([source]) == []


def test_a_file_without_spans_among_others_is_named(source: str, tmp_path: Path) -> None:
    (tmp_path / "without.json").write_text('{"resourceSpans": []}')
    done = run("extract", source, str(tmp_path / "without.json"))
    assert done.exit_code == 0
    assert f"Warning: {tmp_path / 'without.json'}: no spans in it" in done.stderr


def test_a_rule_test_without_spans_fails(tmp_path: Path) -> None:
    rule = Path(write_rule(tmp_path))
    folder = tmp_path / "empty"
    (folder / "traces").mkdir(parents=True)
    (folder / "rule.yaml").write_text(rule.read_text())
    (folder / "traces" / "none.json").touch()
    (folder / "tests.yaml").write_text("- {description: nothing, trace: none.json, expect: not_matched}\n")
    done = run("rules", "test", str(folder))
    assert done.exit_code == 1
    assert "no trace was read" in done.stdout


def test_a_batch_without_a_case_ends_with_3(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text("\n")
    done = run("evaluate", "--batch", str(tmp_path / "cases.jsonl"))
    assert (done.exit_code, done.stdout) == (3, "")
    assert "no case was read" in done.stderr
