"""``tracegrade check``: a command is run, and what its agents did is judged."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from tracegrade.cli.gate_options import AskedGate, gate_options
from tracegrade.cli.groups import Command
from tracegrade.cli.judging import jobs_option, judged_here
from tracegrade.cli.options import rules_option
from tracegrade.cli.output import print_line, print_lines
from tracegrade.cli.process import temporary_folder
from tracegrade.cli.replay import Asked, judged_as_asked
from tracegrade.cli.replay_run import asked_run, run_options
from tracegrade.cli.reports import report_format_option
from tracegrade.cli.settings import settings_options

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.rule.rule import Rule


@click.command(context_settings={"allow_interspersed_args": False}, cls=Command)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT...]")
@rules_option("Judge by these rules instead of those in the settings.")
@jobs_option
@gate_options
@run_options
@settings_options
@report_format_option
@click.option(
    "-o",
    "--output",
    type=click.File("w", encoding="utf-8", lazy=False),
    metavar="FILE",
    help="Write the results to this file, instead of standard output after what the command writes there.",
)
@click.option(
    "--save-traces",
    "saved",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Keep the traces that came in this folder, which must be empty: files that 'replay' and 'baseline save' read.",
)
def command(
    words: tuple[str, ...],
    rule_paths: tuple[str, ...],
    gate: AskedGate,
    jobs: int,
    experiment: str | None,
    run_name: str | None,
    labels: tuple[str, ...],
    tenant: str | None,
    config: "Config",
    output_format: str,
    output: TextIO | None,
    saved: Path | None,
) -> None:
    """Run COMMAND, such as an agent's tests, and judge the traces that it sends; as 'replay' judges stored ones.

    OTLP is received on a free port of this machine, gRPC and HTTP alike, while COMMAND runs; its environment says
    where, by OTEL_EXPORTER_OTLP_ENDPOINT. Nothing is sent on, and stored only with --experiment.

    Every stable rule has to pass whenever it judges, unless its file says what is required of it ('gate'), or the
    options do: --fail-under, --fail-under-overall, --baseline. With --no-gate, results are only shown.

    Exit codes: that of COMMAND when it is not 0 (128 and the number of a signal that ended it); else 0 passed, or
    --no-gate, 1 failed, 3 nothing was judged, not enough data to decide, or spans were rejected; 2 usage, or COMMAND
    cannot be started.
    """
    from tracegrade.compare.commands.check_received import Received
    from tracegrade.pipeline.replay import Selection

    selection = Selection(tenant=tenant)
    asked = Asked.read(rule_paths, config, gate, output_format, jobs, selection=selection, no_fails=True)
    text = shlex.join(words)
    run = asked_run(experiment, run_name, labels, text, asked.selection, asked.rule_set, config)
    own_code = 0
    with _folder(saved) as folder:
        received = Received(folder)

        def gather(report: "SourceReport") -> tuple[str, ...]:
            nonlocal own_code
            own_code = received.run(words)
            if own_code:
                print_line(f"{words[0]!r} ended with exit code {own_code}, which is that of check, too", err=True)
            return received.sources(report)

        with redirect_stdout(output or sys.stdout):
            # A report on standard output is what a program reads; with one in a file, people read the rest.
            explain = partial(_explain, asked) if output_format == "table" or output is not None else None
            code = judged_as_asked(asked, gather, text, run, run_name, explain=explain)
    sys.exit(own_code or code)


def _explain(asked: Asked, sources: tuple[str, ...], failed: "Sequence[Rule]") -> None:
    """Print, on standard error, what 'why' says of the traces that fail these rules."""
    from tracegrade.cli.why_failed import explained
    from tracegrade.pipeline.judged import JudgedTrace

    rule_set = asked.rule_set.only({rule.id for rule in failed})
    judged = judged_here(sources, asked.config, rule_set, asked.selection)
    lacking = [one for one in judged if any(decision.outcome == "fail" for decision in one.decisions)]
    traces = [one for one in judged if isinstance(one, JudgedTrace)]
    print_lines("\n".join(explained(lacking, rule_set, failed, traces)), err=True)


@contextmanager
def _folder(saved: Path | None) -> Iterator[Path]:
    """The empty folder for what comes: that which is asked for, else one that is gone after it."""
    if saved is None:
        with temporary_folder("tracegrade-check-") as folder:
            yield folder
        return
    try:
        saved.mkdir(parents=True, exist_ok=True)
        is_empty = not any(saved.iterdir())
    except OSError as error:
        raise click.UsageError(f"--save-traces {saved}: {error.strerror}") from None
    if not is_empty:
        raise click.UsageError(f"--save-traces {saved}: is not empty, and what is there would be judged, too")
    yield saved
