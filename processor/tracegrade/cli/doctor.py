"""``tracegrade doctor``: what is wrong with an installation and its data, and what to set."""

import sys
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import rules_option, tenant_option
from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    EXIT_FAILED,
    format_option,
    print_json,
    print_line,
    print_table,
    progress,
    styled,
)
from tracegrade.cli.process import make_files_private
from tracegrade.cli.settings import settings_options

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.rule.rule_set import RuleSet

_SIGNS = {"error": ("✗", "bold red"), "warning": ("!", "yellow"), "note": ("·", "cyan"), "ok": ("✓", "green")}


@click.command(cls=Command)
@rules_option("Use these rules instead of those in the settings.")
@click.option(
    "--traces",
    "max_traces",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="How many of the newest stored traces to examine; of the last 7 days, those of rare services and agents, and "
    "some that no rule judged, come on top.",
)
@click.option(
    "--journal-mib",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    help="How much of the newest part of the journal to examine, in MiB.",
)
@click.option(
    "--repair",
    "repairs",
    is_flag=True,
    help="Make the store whole again, from itself and the journals, while 'serve' does not run.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="warning",
    show_default=True,
    help="The least finding that makes the exit code 1.",
)
@tenant_option
@settings_options
@format_option
def command(
    config: "Config",
    output_format: str,
    fail_on: str,
    rule_paths: tuple[str, ...],
    max_traces: int,
    journal_mib: int,
    repairs: bool,
    tenant: str | None,
) -> None:
    """Find out what is wrong with an installation and its data, and what to set.

    Examines disk, journal and store, also while serve runs, and changes nothing. It finds spans that no dialect reads,
    spans that arrive late (and suggests longer timeouts), incomplete traces, calls without content, calls shown twice,
    wrong clocks, rules that judge nothing, and what was lost. If a service or agent has few of the newest traces, up to
    20 of its last 7 days are examined as well. With --tenant, it looks at that tenant's data alone, and not at disk,
    processes and how full the journal is.

    With --repair, the store is completed first: a SQLite file that is damaged, or from before the first release, is
    renamed and what can be read of it copied; then results are added from the results journals, and last from the
    journal, judged by the rules in force now. What people made, such as silences and suites, is only in the store.

    JSON: one line per finding: {check, level, where, found, advice, evidence}; level is error, warning, note or ok.

    Exit codes: 0 nothing to fix (notes at most), 1 errors or warnings (or what --fail-on says), 2 wrong settings or
    rules, 3 cannot tell: there is no data yet.
    """
    from tracegrade.doctor.examine import examine
    from tracegrade.doctor.finding import LEVELS, Finding

    if repairs and tenant is not None:
        raise click.UsageError("--repair makes the store of all tenants whole; leave --tenant out")
    rule_set = config.load_rules(rule_paths)
    if repairs:
        _repair(config, rule_set)
    examined = examine(
        config, rule_set, max_traces=max_traces, max_journal_bytes=journal_mib * 1024 * 1024, tenant=tenant
    )
    findings = sorted(examined.findings, key=lambda finding: LEVELS.index(finding.level))
    if output_format == "json":
        evidence = {"traces": examined.traces, "sessions": examined.sessions, "journal_spans": examined.journal_spans}
        findings.append(Finding("looked at", "ok", "", examined.looked_at, "", evidence))
        print_json(finding.to_json() for finding in findings)
    else:
        print_table(
            f"Looked at {examined.looked_at}",
            ["", "check", "where", "found", "what to do"],
            [[styled(*_SIGNS[item.level]), item.check, item.where, item.found, item.advice] for item in findings],
            whole=["check"],
            empty=f"Looked at {examined.looked_at}: there is nothing yet to find anything in",
        )
    if not examined.can_tell:
        sys.exit(EXIT_CANNOT_TELL)
    failing = LEVELS[: LEVELS.index(fail_on) + 1] if fail_on in LEVELS else ()
    if any(finding.level in failing for finding in findings):
        sys.exit(EXIT_FAILED)


def _repair(config: "Config", rule_set: "RuleSet") -> None:
    from tracegrade.doctor.repair import repair

    make_files_private()
    with progress("traces read", None) as advance:
        done = repair(config, rule_set, advance)
    for line in done.lines():
        print_line(line, err=True)
