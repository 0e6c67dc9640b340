"""``tracegrade doctor``: what is wrong with an installation and its data, and what to set."""

import sys
from typing import TYPE_CHECKING

import click

from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    EXIT_FAILED,
    format_option,
    print_json,
    print_table,
    reports_errors,
    styled,
)
from tracegrade.cli.settings_option import settings_options
from tracegrade.words import count

if TYPE_CHECKING:
    from tracegrade.config import Config

_SIGNS = {"error": ("✗", "bold red"), "warning": ("!", "yellow"), "note": ("·", "cyan"), "ok": ("✓", "green")}


@click.command()
@click.option("--rules", "rule_paths", multiple=True, metavar="PATH", help="These rules instead of the settings'.")
@click.option(
    "--traces", "max_traces", type=click.IntRange(1), default=1000, show_default=True, help="Newest stored traces."
)
@click.option(
    "--journal-mib", type=click.IntRange(1), default=128, show_default=True, help="Newest part of the journal, in MiB."
)
@settings_options
@format_option
@reports_errors
def command(
    config: "Config", output_format: str, rule_paths: tuple[str, ...], max_traces: int, journal_mib: int
) -> None:
    """Say what is wrong with an installation and its data, and what to set.

    Looks at disk, journal and store, beside a running serve, and changes nothing: spans that no dialect reads, how late
    spans come (with times that would wait for them), incomplete traces, calls without content, calls shown twice, wrong
    clocks, rules that judge nothing, and what was lost.

    JSON: one line a finding: {check, level, where, found, advice, evidence}; level is error, warning, note or ok.

    Exit codes: 0 nothing to mend (notes at most), 1 errors or warnings, 2 wrong settings or rules, 3 cannot tell: there
    is nothing to look at yet.
    """
    from tracegrade.doctor.examine import examine
    from tracegrade.doctor.finding import LEVELS
    from tracegrade.match.load import load_rules

    rule_set = load_rules(list(rule_paths or config.rules.paths), semantic_model=config.rules.semantic_model)
    examined = examine(config, rule_set, max_traces=max_traces, max_journal_bytes=journal_mib * 1024 * 1024)
    findings = sorted(examined.findings, key=lambda finding: LEVELS.index(finding.level))
    if output_format == "json":
        print_json(finding.to_json() for finding in findings)
    else:
        stored = f"{count(examined.traces, 'stored trace')}, {count(examined.sessions, 'session')}"
        looked_at = f"{stored}, {count(examined.journal_spans, 'span')} of the journal"
        print_table(
            f"Looked at {looked_at}",
            ["", "check", "where", "found", "what to do"],
            [[styled(*_SIGNS[item.level]), item.check, item.where, item.found, item.advice] for item in findings],
            whole=["check"],
        )
    if not examined.can_tell:
        sys.exit(EXIT_CANNOT_TELL)
    if any(finding.level in ("error", "warning") for finding in findings):
        sys.exit(EXIT_FAILED)
