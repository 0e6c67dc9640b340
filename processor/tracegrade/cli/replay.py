"""``tracegrade replay``: stored traces judged again."""

import sys
from typing import TYPE_CHECKING

import click

from tracegrade.cli.gate_options import AskedGate, gate_options
from tracegrade.cli.judging import jobs_option
from tracegrade.cli.output import reports_errors
from tracegrade.cli.replay_run import asked_run, run_options
from tracegrade.cli.replaying import Asked, judged_as_asked
from tracegrade.cli.reports import report_format_option
from tracegrade.cli.settings_option import settings_options
from tracegrade.cli.times import TIME

if TYPE_CHECKING:
    from tracegrade.config import Config

_GROUPS = ("rule", "agent", "service", "release")


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option(
    "--rules",
    "rule_paths",
    multiple=True,
    metavar="PATH",
    help="Judge by these rules instead of those in the settings.",
)
@click.option("--since", type=TIME, help="Only traces first received (in files: started) at this time or later.")
@click.option("--until", type=TIME, help="Only traces first received (in files: started) before this time.")
@click.option("--service", help="Only traces of this service.")
@click.option("--agent", help="Only traces in which this agent ran.")
@click.option("--trace-id", help="Only this trace.")
@click.option("--release", help="Only traces of this release (service.version).")
@click.option(
    "--by",
    type=click.Choice(_GROUPS),
    default="rule",
    show_default=True,
    help="Group the summary of table and markdown by this; the gate is always by rule.",
)
@click.option(
    "--compare",
    "base",
    metavar="NAME|FILE|SIDE",
    help="Print how what is judged differs from a baseline, or a side as 'compare' takes it, in place of the summary; "
    "a rule that is worse ends with 1, too.",
)
@jobs_option
@gate_options
@run_options
@settings_options
@report_format_option
@reports_errors
def command(
    sources: tuple[str, ...],
    rule_paths: tuple[str, ...],
    since: int | None,
    until: int | None,
    service: str | None,
    agent: str | None,
    trace_id: str | None,
    release: str | None,
    by: str,
    base: str | None,
    gate: AskedGate,
    jobs: int,
    experiment: str | None,
    run_name: str | None,
    labels: tuple[str, ...],
    tenant: str | None,
    config: "Config",
    output_format: str,
) -> None:
    """Judge stored traces again; nothing is sent or alerted, and stored only with --experiment.

    SOURCE is a file or folder of traces, as 'extract' takes it, or '-' for standard input; without one, the
    journal of --data-dir, or Kafka where journal.kafka is set. A gate holds where an option below or a rule file
    ('gate') asks for one; options count before files. Exit codes: 0 done or gate passed, 1 gate failed, 2 usage, 3 not
    enough data to decide, or spans of a file could not be read.

    Every rule is listed with its pass rate, the rate's 95 % Wilson interval, and the gate's decision. Incomplete traces
    do not count, unless the rule says so. JSON: one evaluation per line. With a gate, standard error gets one JSON line
    per rule, {gate, reason, rule_id, level, status, pass_rate, low, high, results, pass, fail, not_evaluable, error,
    incomplete, bounds, against}, then {gate, reasons}.
    """
    from tracegrade.pipeline.replay import Selection

    if by != "rule" and output_format not in ("table", "markdown"):
        raise click.UsageError(f"--by {by} groups the summary of --format table and markdown; {output_format} has none")
    if base is not None and by != "rule":
        raise click.UsageError("--by groups the summary, in place of which --compare prints a comparison")
    asked = Asked.read(
        rule_paths,
        config,
        gate,
        output_format,
        jobs,
        by=by,
        base=base,
        selection=Selection(since, until, service, agent, trace_id, release, tenant),
    )
    source = ", ".join("standard input" if source == "-" else source for source in sources) or "journal"
    run = asked_run(experiment, run_name, labels, source, asked.selection, asked.rule_set, config)
    sys.exit(judged_as_asked(asked, lambda report: sources, source, run, run_name))
