"""``tracegrade rules test``: the tests beside rules, run and printed."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.output import (
    EXIT_FAILED,
    outcome_text,
    print_json,
    print_line,
    print_lines,
    print_table,
)
from tracegrade.cli.reports import Check, report, report_format_option
from tracegrade.cli.rule_paths import paths_argument, rules_with_paths
from tracegrade.cli.settings import config_option

if TYPE_CHECKING:
    from tracegrade.pipeline.rule_tests import RuleTestResult
    from tracegrade.rule.rule import Rule

_OF_THE_TESTS = "the rule's tests"


@click.command(cls=Command)
@paths_argument
@config_option
@report_format_option
def test(paths: Sequence[str], config_path: Path | None, output_format: str) -> None:
    """Run the tests of rules: each trace is judged, and each outcome must be as expected.

    Without PATH: the folder ./rules, else the rules in the settings file, else the ready-made ones.

    Of the settings, only traces.tool_aliases, traces.ignore_scopes and traces.prices are used, and of rules paths,
    semantic_model and allow_code.

    Exit 1 when a test fails, when a test that is marked as a known gap passes, or when a rule has no failing or no
    passing trace. A ready-made rule with status: stable needs failing traces from two dialects and passing traces from
    two dialects.
    """
    from tracegrade.config import load_config
    from tracegrade.pipeline.rule_tests import run_tests

    config = load_config(config_path, allow_unset=True)
    rules = rules_with_paths(paths, config.rules.reading, config.rules.paths if config_path else ())
    tested = [(rule, path, list(run_tests(rule, Path(path), config.traces))) for rule, path in rules]
    results = [result for _, _, found in tested for result in found]
    if output_format == "json":
        print_json(_result_json(result) for result in results)
    elif output_format == "table":
        print_results(results)
    else:
        checks = [_check(rule, path, result) for rule, path, found in tested for result in found]
        print_lines(report(output_format, checks, "Tests of rules"))
    if any(result.failure for result in results):
        sys.exit(EXIT_FAILED)


def _check(rule: "Rule", path: str, result: "RuleTestResult") -> Check:
    from tracegrade.pipeline.rule_tests import expectation_text

    test = result.test
    said = result.failure or (expectation_text(result.found) if result.found else "")
    return Check(
        rule=rule,
        rule_path=path,
        name=test.description if test else _OF_THE_TESTS,
        outcome="fail" if result.failure else "pass",
        message=said,
        place=", ".join(test.traces) if test else path,
        key=f"{rule.id}/{test.description if test else _OF_THE_TESTS}",
    )


def _result_json(result: "RuleTestResult") -> dict[str, Any]:
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


def print_results(results: "Sequence[RuleTestResult]") -> None:
    """A row for each test, and how many passed."""
    from tracegrade.pipeline.rule_tests import expectation_text

    rows = []
    for result in results:
        said = result.failure or (expectation_text(result.found) if result.found else "")
        if result.test and result.test.known_gap and not result.failure:
            said = f"known gap: {result.test.known_gap}"
        description = result.test.description if result.test else _OF_THE_TESTS
        rows.append((result.rule_id, description, outcome_text("fail" if result.failure else "pass"), said))
    print_table("", ["rule", "test", "", "found"], rows, empty="no rules")
    failed = sum(bool(result.failure) for result in results)
    print_line(f"{len(results) - failed} passed, {failed} failed")
