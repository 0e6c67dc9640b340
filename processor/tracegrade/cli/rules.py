"""``tracegrade rules``: rule files checked, tested and listed."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from tracegrade.cli.output import (
    EXIT_FAILED,
    EXIT_USAGE,
    format_option,
    markdown_table,
    outcome_text,
    output_option,
    print_json,
    print_line,
    print_lines,
    print_table,
    reports_errors,
)
from tracegrade.cli.reading import ReadSettings, reading_options
from tracegrade.cli.reports import Check, report, report_format_option
from tracegrade.cli.settings_option import config_option, settings_options
from tracegrade.cli.trace_id_argument import TRACE_ID
from tracegrade.words import count, time_text

if TYPE_CHECKING:
    from tracegrade.cli.new_rule import Draft
    from tracegrade.cli.rule_tests import Result
    from tracegrade.config import Config
    from tracegrade.match.rule import Rule
    from tracegrade.match.rule_set import RuleSet
    from tracegrade.suites.imported import Imported

_WORDS = re.compile("[a-z0-9]+(-[a-z0-9]+)*")
_SUITE = "suite.json"
_OF_THE_TESTS = "the rule's tests"

_paths = click.argument("paths", nargs=-1, metavar="[PATH...]")


@click.group()
@click.option("--semantic-model", metavar="FOLDER", help="The model2vec model for rules with $semantic.")
@click.pass_context
def command(context: click.Context, semantic_model: str | None) -> None:
    """Check, test and list rule files.

    PATH is a rule file, a folder in which rule.yaml and *.rule.yaml count, or builtin:NAME. Without one: the folder
    ./rules where there is one, else all ready-made rules.
    """
    context.obj = semantic_model


@command.command()
@_paths
@click.option("--strict", is_flag=True, help="What looks wrong is wrong: exit 2 for warnings too.")
@reading_options
@format_option
@reports_errors
def check(settings: ReadSettings, paths: Sequence[str], strict: bool, output_format: str) -> None:
    """Say everything that is wrong with rule files, and warn of what looks wrong; exit 2 if anything is wrong.

    Where there is a store, also of tools that no stored trace calls: looked for in the newest 2,000.

    JSON: {rules, hash, warnings: [{path, line, column, message}]}.
    """
    from dataclasses import asdict

    from tracegrade.match.load import tools_never_called

    rule_set = _load(paths)
    warnings = [*rule_set.warnings, *tools_never_called(rule_set, _stored_tools(settings))]
    if output_format == "json":
        print_json([{"rules": len(rule_set), "hash": rule_set.hash, "warnings": [asdict(item) for item in warnings]}])
    else:
        for warning in warnings:
            print_line(f"{'Error' if strict else 'Warning'}: {warning}", err=True)
        said = count(len(warnings), "warning") if warnings else "nothing wrong"
        print_line(f"{count(len(rule_set), 'rule')}, {said} (rule set {rule_set.hash})")
    if strict and warnings:
        sys.exit(EXIT_USAGE)


def _stored_tools(settings: ReadSettings) -> frozenset[str]:
    """The tools that stored traces call; none without a store that can be read."""
    from sqlalchemy.exc import SQLAlchemyError

    from tracegrade.model.errors import TraceGradeError
    from tracegrade.store.open import reading_store
    from tracegrade.store.tools import called_tools

    try:
        with reading_store(settings.store_url) as connection:
            return called_tools(connection)
    except (TraceGradeError, SQLAlchemyError):  # there is none here, or not yet, or it is damaged: rules are none of it
        return frozenset()


@command.command(name="list")
@_paths
@click.option(
    "--evaluators", is_flag=True, help="The evaluators that rules may name, or those named and what each field means."
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "markdown"]),
    default="table",
    show_default=True,
    help="A table, one JSON object per line, or a table for a README.",
)
@reports_errors
def list_(paths: Sequence[str], evaluators: bool, output_format: str) -> None:
    """Show rules, or the evaluators they may name.

    With --evaluators NAME in place of a PATH, the fields of that evaluator.
    """
    if evaluators and paths:
        rows = [row for name in paths for row in _field_rows(name)]
        columns = ["field", "default", "means"] if len(paths) == 1 else ["evaluator", "field", "default", "means"]
    elif evaluators:
        rows = _evaluator_rows()
        columns = ["evaluator", "judges", "fields"]
    else:
        rows = _rule_rows(paths)
        columns = ["rule", "category", "title", "level", "status", "scope", "evaluators"]
    if output_format == "json":
        print_json(rows)
    elif output_format == "markdown":
        print_lines(markdown_table(columns, [_cells(row, columns) for row in rows]))
    else:
        print_table("", columns, [_cells(row, columns) for row in rows], empty="no rules")


@command.command()
@reports_errors
def schema() -> None:
    """Print the JSON Schema of a rule file, for editors."""
    import json

    from tracegrade.match.schema import rule_schema

    print_lines(json.dumps(rule_schema(), indent=2, ensure_ascii=False))


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="ID|PATH...")
@reading_options
@reports_errors
def explain(settings: ReadSettings, names: Sequence[str]) -> None:
    """Say in words what rules judge, when that passes, who is told, and since when they are in force.

    IDs are looked for at the PATHs beside them; rule files or folders of rules alone explain all of their rules.
    """
    from tracegrade.match.explained import explained

    paths = [name for name in names if _is_place(name)]
    ids = [name for name in names if not _is_place(name)]
    rule_set = _load(paths)
    chosen = [rule for name in ids for rule in _of_id(rule_set, name)] if ids else list(rule_set.rules)
    since = _in_force_since(settings, chosen)
    print_lines("\n\n\n".join(explained(rule, rule_set.paths[rule.id], since.get(rule.id, "")) for rule in chosen))


def _in_force_since(settings: ReadSettings, rules: "Sequence[Rule]") -> dict[str, str]:
    """Since when each rule judges so, and has its text, as far as the store knows it."""
    from tracegrade.store.open import StoreError, reading_store
    from tracegrade.store.rule_texts import rule_versions

    found = {}
    try:
        with reading_store(settings.store_url) as connection:
            for rule in rules:
                texts = [item for item in rule_versions(connection, rule.id) if item.rule_hash == rule.hash]
                own = next((item for item in texts if item.text_hash == rule.text_hash), None)
                if texts:
                    text = "not yet in force" if own is None else f"since {time_text(own.since_ns)} UTC"
                    found[rule.id] = f"Judges so since {time_text(texts[-1].since_ns)} UTC, this text {text}"
    except StoreError:  # nothing was judged here yet
        pass
    return found


@command.command()
@_paths
@config_option
@report_format_option
@reports_errors
def test(paths: Sequence[str], config_path: Path | None, output_format: str) -> None:
    """Run the tests beside rules: each trace is judged, and each outcome must be as expected.

    Of the settings, traces.tool_aliases and ignore_scopes count.

    Exit 1 when a test fails, when a known gap is closed, or when a rule has no trace that fails it or none that
    passes it; a ready-made one that says status: stable needs both from two dialects.
    """
    from tracegrade.cli.rule_tests import run_tests
    from tracegrade.config import load_config

    settings = load_config(config_path).traces
    tested = [(rule, path, list(run_tests(rule, Path(path), settings))) for rule, path in _rules(paths)]
    results = [result for _, _, found in tested for result in found]
    if output_format == "json":
        print_json(_result_json(result) for result in results)
    elif output_format == "table":
        _print_results(results)
    else:
        checks = [_check(rule, path, result) for rule, path, found in tested for result in found]
        print_lines(report(output_format, checks, "Tests of rules"))
    if any(result.failure for result in results):
        sys.exit(EXIT_FAILED)


@command.command()
@click.argument("name", metavar="CATEGORY/ID")
@click.option("--in", "folder", default="rules", show_default=True, type=click.Path(path_type=Path), help="Where.")
@click.option("--from-trace", "trace_id", type=TRACE_ID, help="Expect what this stored trace did, and test with it.")
@settings_options
@reports_errors
def new(name: str, folder: Path, trace_id: bytes | None, config: "Config") -> None:
    """Write a rule to begin from: rule.yaml, tests.yaml and two traces, one that passes and one that fails.

    The id completes the sentence "flags ...", such as refund-without-lookup. With --from-trace, the trace is written as
    it was kept, with what people said in it: read it before you share it.
    """
    from tracegrade.cli import new_rule
    from tracegrade.cli.rule_tests import run_tests

    category, _, rule_id = name.partition("/")
    if not (_WORDS.fullmatch(category) and _WORDS.fullmatch(rule_id)):
        raise click.UsageError(f"expected CATEGORY/ID, lower-case words joined by '-', found {name!r}")
    draft = new_rule.example(rule_id) if trace_id is None else _from_stored(rule_id, trace_id, config)
    written = new_rule.write(folder / category / rule_id, draft)
    for path in written:
        print_line(f"wrote {path}")
    (rule,) = _load([str(written[0])]).rules
    results = list(run_tests(rule, written[0], config.traces))
    _print_results(results)
    if any(result.failure for result in results):
        sys.exit(EXIT_FAILED)


def _from_stored(rule_id: str, trace_id: bytes, config: "Config") -> "Draft":
    from tracegrade.cli import new_rule
    from tracegrade.cli.traces import kept_requests
    from tracegrade.history.stored_extraction import extract_stored
    from tracegrade.otlp.json import to_json
    from tracegrade.store.open import reading_store
    from tracegrade.store.read import stored_traces

    with reading_store(config.store_url) as connection:
        found = stored_traces(connection, trace_id)
    if not found:
        raise new_rule.NewRuleError(f"trace {trace_id.hex()} is not in the store; 'tracegrade traces list' shows all")
    requests = [to_json(request) for request in kept_requests(found[0])]
    return new_rule.from_trace(rule_id, extract_stored(found[0], config.traces), requests)


@command.command(name="import")
@click.argument("source")
@click.option("--id", "rule_id", default="", help="The rule's id; made of the suite's name if left out.")
@click.option("--in", "folder", default="rules", show_default=True, type=click.Path(path_type=Path), help="Where.")
@click.option("--answers", metavar="FILE", help="The answers of a BFCL list, where they are in a file of their own.")
@click.option("--replace", is_flag=True, help="Write over a rule of that id.")
@reports_errors
def import_(source: str, rule_id: str, folder: Path, answers: str | None, replace: bool) -> None:
    """Make a rule of a suite, of a BFCL list, or of the tools of an MCP server.

    SOURCE is a file ('-' for standard input) or the http(s) address of an MCP server (streamable HTTP, or SSE). A suite
    is {name, tools, test_cases}; each case becomes a case of the rule, literal. Of a server's tools, the arguments are
    judged by their schemas. Written to imported/ID in the folder, with suite.json beside it: what only a run needs.
    """
    from tracegrade.suites.bfcl import import_bfcl, is_bfcl
    from tracegrade.suites.imported import read_document
    from tracegrade.suites.mcp import import_tools, list_tools
    from tracegrade.suites.tool_suite import import_suite

    if source.startswith(("http://", "https://")):
        imported = import_tools(list_tools(source), source, rule_id)
    else:
        document = read_document(_text_of(source))
        beside = read_document(_text_of(answers)) if answers is not None else None
        if is_bfcl(document):
            imported = import_bfcl(document, "stdin" if source == "-" else Path(source).stem, rule_id, beside)
        else:
            imported = import_suite(document, rule_id)
    path = _write_imported(imported, folder, replace)
    for note in imported.notes:
        print_line(f"Note: {note}.", err=True)
    print_line(f"wrote {path}")


def _text_of(source: str) -> str:
    from tracegrade.suites.imported import SuiteError

    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise SuiteError(f"{source}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SuiteError(f"{source}: expected text in UTF-8") from None


def _write_imported(imported: "Imported", folder: Path, replace: bool) -> Path:
    import json

    from tracegrade.match.rule import Rule
    from tracegrade.suites.imported import SuiteError
    from tracegrade.yaml_file import validate
    from tracegrade.yaml_text import dumped, parse

    place = folder / "imported" / str(imported.rule["id"])
    path = place / "rule.yaml"
    text = dumped(imported.rule)
    validate(parse(text, str(path)), Rule)  # nothing is written that no rule can be
    if path.exists() and not replace:
        raise SuiteError(f"{path}: there is a rule already; --replace writes over it, --id names another")
    place.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    kept = json.dumps(imported.kept, indent=2, ensure_ascii=False) + "\n"
    (place / _SUITE).write_text(kept, encoding="utf-8")
    return path


@command.command(name="export")
@click.argument("name", metavar="ID|PATH")
@_paths
@output_option
@reports_errors
def export(name: str, paths: Sequence[str], output: IO[str]) -> None:
    """Write the cases of a rule as a suite again: what 'rules import' reads."""
    import json

    from tracegrade.suites.bfcl import export_bfcl
    from tracegrade.suites.imported import object_at, read_document
    from tracegrade.suites.tool_suite import export_suite

    rule_set, chosen = _named(name, paths)
    if len(chosen) != 1:
        raise click.UsageError(f"expected one rule, found {len(chosen)} at {name!r}")
    beside = Path(rule_set.paths[chosen[0].id]).with_name(_SUITE)
    kept = object_at(read_document(_text_of(str(beside))), str(beside)) if beside.exists() else {}
    suite = export_bfcl(chosen[0], kept) if "bfcl" in kept else export_suite(chosen[0], kept)
    output.write(json.dumps(suite, indent=2, ensure_ascii=False) + "\n")


def _named(name: str, paths: Sequence[str]) -> "tuple[RuleSet, list[Rule]]":
    """The rules of an id, or all rules at a place."""
    is_place = not paths and _is_place(name)
    rule_set = _load([name] if is_place else paths)
    return rule_set, list(rule_set.rules) if is_place else _of_id(rule_set, name)


def _is_place(name: str) -> bool:
    """Whether that is where rules are, and no rule's id."""
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    return name.startswith("builtin:") or is_path or Path(name).exists()


def _of_id(rule_set: "RuleSet", name: str) -> "list[Rule]":
    from tracegrade.yaml_file import did_you_mean

    chosen = [rule for rule in rule_set.rules if rule.id == name]
    if not chosen:
        hint = did_you_mean(name, [known.id for known in rule_set.rules])
        raise click.UsageError(f"no rule {name!r} here{hint}")
    return chosen


def _load(paths: Sequence[str]) -> "RuleSet":
    from tracegrade.match.load import builtin_rules, load_rules

    local = Path("rules")
    model: str | None = click.get_current_context().find_object(str)
    return load_rules(paths or [local if local.is_dir() else builtin_rules()], semantic_model=model)


def _rules(paths: Sequence[str]) -> "list[tuple[Rule, str]]":
    rule_set = _load(paths)
    return [(rule, rule_set.paths[rule.id]) for rule in rule_set.rules]


def _rule_rows(paths: Sequence[str]) -> list[dict[str, Any]]:
    from tracegrade.match.summary import rule_summary

    return [{**rule_summary(rule, path), "path": path} for rule, path in _rules(paths)]


def _evaluator_rows() -> list[dict[str, Any]]:
    from tracegrade.evaluate.registry import evaluators
    from tracegrade.match.evaluation_spec import field_names

    return [
        {"evaluator": evaluator.name, "judges": evaluator.summary, "fields": field_names(evaluator)}
        for evaluator in evaluators().values()
    ]


def _field_rows(name: str) -> list[dict[str, Any]]:
    """The fields of one evaluator, with what the schema of rule files says of them."""
    from tracegrade.evaluate.registry import evaluators
    from tracegrade.match.evaluation_spec import field_meanings
    from tracegrade.yaml_file import did_you_mean

    if (evaluator := evaluators().get(name)) is None:
        raise click.UsageError(f"no evaluator {name!r}{did_you_mean(name, evaluators())}")
    return [
        {"evaluator": name, "field": field, "default": default, "means": means}
        for field, default, means in field_meanings(evaluator)
    ]


def _cells(row: dict[str, Any], columns: Sequence[str]) -> list[str]:
    return [", ".join(cell) if isinstance(cell := row[column], list) else cell for column in columns]


def _check(rule: "Rule", path: str, result: "Result") -> Check:
    from tracegrade.cli.rule_tests import shown

    test = result.test
    said = result.failure or (shown(result.found) if result.found else "")
    return Check(
        rule=rule,
        rule_path=path,
        name=test.description if test else _OF_THE_TESTS,
        outcome="fail" if result.failure else "pass",
        message=said,
        place=", ".join(test.traces) if test else path,
        key=f"{rule.id}/{test.description if test else _OF_THE_TESTS}",
    )


def _result_json(result: "Result") -> dict[str, Any]:
    test = result.test
    return {
        "rule": result.rule_id,
        "test": test.description if test else None,
        "traces": test.traces if test else [],
        "expect": test.expect if test else None,
        "found": result.found,
        "known_gap": test.known_gap if test else None,
        "outcome": "fail" if result.failure else "pass",
        "message": result.failure,
    }


def _print_results(results: "Sequence[Result]") -> None:
    from tracegrade.cli.rule_tests import shown

    rows = []
    for result in results:
        said = result.failure or (shown(result.found) if result.found else "")
        if result.test and result.test.known_gap and not result.failure:
            said = f"known gap: {result.test.known_gap}"
        description = result.test.description if result.test else _OF_THE_TESTS
        rows.append((result.rule_id, description, outcome_text("fail" if result.failure else "pass"), said))
    print_table("", ["rule", "test", "", "found"], rows, empty="no rules")
    failed = sum(bool(result.failure) for result in results)
    print_line(f"{len(results) - failed} passed, {failed} failed")
