"""``tracegrade rules``: rule files checked, tested and listed."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.output import (
    EXIT_FAILED,
    count,
    format_option,
    markdown_table,
    outcome_text,
    print_json,
    print_table,
    reports_errors,
)
from tracegrade.cli.reports import Check, report, report_format_option
from tracegrade.cli.settings_option import config_option

if TYPE_CHECKING:
    from tracegrade.cli.rule_tests import Result
    from tracegrade.match.rule import Rule
    from tracegrade.match.rule_set import RuleSet

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
@format_option
@reports_errors
def check(paths: Sequence[str], output_format: str) -> None:
    """Say everything that is wrong with rule files; exit 2 if anything is."""
    rule_set = _load(paths)
    if output_format == "json":
        print_json([{"rules": len(rule_set), "hash": rule_set.hash}])
    else:
        click.echo(f"{count(len(rule_set), 'rule')}, nothing wrong (rule set {rule_set.hash})")


@command.command(name="list")
@_paths
@click.option("--evaluators", is_flag=True, help="The evaluators that rules may name, instead of rules.")
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
    """Show rules, or the evaluators they may name."""
    if evaluators:
        rows = _evaluator_rows()
        columns = ["evaluator", "judges", "fields"]
    else:
        rows = _rule_rows(paths)
        columns = ["rule", "category", "title", "level", "status", "scope", "evaluators"]
    if output_format == "json":
        print_json(rows)
    elif output_format == "markdown":
        click.echo(markdown_table(columns, [_cells(row, columns) for row in rows]))
    else:
        print_table("", columns, [_cells(row, columns) for row in rows], empty="no rules")


@command.command()
@reports_errors
def schema() -> None:
    """Print the JSON Schema of a rule file, for editors."""
    import json

    from tracegrade.match.schema import rule_schema

    click.echo(json.dumps(rule_schema(), indent=2, ensure_ascii=False))


@command.command()
@click.argument("rule_id", metavar="ID")
@_paths
@reports_errors
def explain(rule_id: str, paths: Sequence[str]) -> None:
    """Say in words what one rule judges, and when it alerts."""
    from tracegrade.yaml_file import did_you_mean

    rule_set = _load(paths)
    rule = rule_set.rule(rule_id)
    if rule is None:
        hint = did_you_mean(rule_id, [known.id for known in rule_set.rules])
        raise click.UsageError(f"no rule {rule_id!r} here{hint}")
    click.echo(_explained(rule, rule_set.paths[rule.id]))


@command.command()
@_paths
@config_option
@report_format_option
@reports_errors
def test(paths: Sequence[str], config_path: Path | None, output_format: str) -> None:
    """Run the tests beside rules: each trace is judged, and each outcome must be as expected.

    Of the settings, traces.tool_aliases and ignore_scopes count.

    Exit 1 when a test fails, when a known gap is closed, or when a rule has no trace that fails it or none that
    passes it; one that says status: stable needs both from two dialects.
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
        click.echo(report(output_format, checks, "Tests of rules"))
    if any(result.failure for result in results):
        sys.exit(EXIT_FAILED)


def _load(paths: Sequence[str]) -> "RuleSet":
    from tracegrade.match.load import builtin_rules, load_rules

    local = Path("rules")
    model: str | None = click.get_current_context().find_object(str)
    return load_rules(paths or [local if local.is_dir() else builtin_rules()], semantic_model=model)


def _rules(paths: Sequence[str]) -> "list[tuple[Rule, str]]":
    rule_set = _load(paths)
    return [(rule, rule_set.paths[rule.id]) for rule in rule_set.rules]


def _rule_rows(paths: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "rule": rule.id,
            "category": _category(rule, Path(path)),
            "title": rule.title,
            "level": rule.level,
            "status": rule.status,
            "scope": rule.scope,
            "evaluators": list(dict.fromkeys(spec.evaluator.name for _, spec in rule.named_specs())),
            "hash": rule.hash,
            "path": path,
        }
        for rule, path in _rules(paths)
    ]


def _category(rule: "Rule", path: Path) -> str:
    """The folder around the rule's own, "" where it has none of its own."""
    return path.parent.parent.name if path.parent.name == rule.id else ""


def _explained(rule: "Rule", path: str) -> str:
    from tracegrade.cli.output import json_text

    facts = [
        ("flags", rule.id),
        ("title", rule.title),
        ("is", f"{rule.level}, {rule.status}, of scope {rule.scope}, hash {rule.hash}"),
        ("because", rule.description),
        *(("judges", f"{clause}: {json_text(patterns.written)}") for clause, patterns in rule.match_clauses),
        *(("unless", f"{clause}: {json_text(patterns.written)}") for clause, patterns in rule.unless_clauses),
        ("judges", rule.match.cel and f"cel: {rule.match.cel.source}"),
        ("sample", "" if rule.sample.share == 1 else f"{rule.sample.share:.4g} of the traces"),
        *(
            ("by", f"{spec.name}: {spec.evaluator.summary} From {spec.threshold:g} on it passes.")
            for spec in rule.evaluate
        ),
        *(("case", f"{case.id}: {case.spec.name}") for case in (rule.cases.all if rule.cases is not None else ())),
        *(("alerts", alert.says) for alert in rule.alert),
        *(("not when", situation) for situation in rule.false_positives),
        *(("see", reference) for reference in rule.references),
        ("file", path),
    ]
    return "\n".join(f"{label:<9} {fact}" for label, fact in facts if fact)


def _evaluator_rows() -> list[dict[str, Any]]:
    from tracegrade.evaluate.registry import evaluators
    from tracegrade.match.evaluation_spec import field_names

    return [
        {"evaluator": evaluator.name, "judges": evaluator.summary, "fields": field_names(evaluator)}
        for evaluator in evaluators().values()
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
    click.echo(f"{len(results) - failed} passed, {failed} failed")
