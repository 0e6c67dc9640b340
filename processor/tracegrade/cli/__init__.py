"""The ``tracegrade`` command: arguments in, one call, text out.

Commands are loaded when they are used, so that ``--help`` and completion stay quick and a command line that only
reads files never imports a server.
"""

import gc
import os
import sys

import click

from tracegrade.cli.groups import Group
from tracegrade.part import parts, placed

_OWN = {
    "demo": ("tracegrade.cli.demo:command", "See it work: a small instrumented agent, judged."),
    "serve": ("tracegrade.cli.serve:command", "Receive, forward and judge traces."),
    "traces": ("tracegrade.cli.traces:command", "Show stored traces."),
    "why": ("tracegrade.cli.why:command", "Why was a trace judged as it was, or not at all?"),
    "results": ("tracegrade.cli.results:command", "Show stored evaluations."),
    "alerts": ("tracegrade.cli.alerts:command", "Show and silence alerts."),
    "extract": ("tracegrade.cli.extract:command", "Show the tool calls in files of traces."),
    "rules": ("tracegrade.cli.rules:command", "Check, test, try and list rule files."),
    "promote": ("tracegrade.cli.promote:command", "Make recorded traces tests of a rule."),
    "evaluate": ("tracegrade.cli.evaluate:command", "Judge calls given on the command line, one set or a batch."),
    "replay": ("tracegrade.cli.replay:command", "Judge stored traces again, by the rules as they are now."),
    "experiments": ("tracegrade.cli.experiments:command", "Show and compare stored runs of replay."),
    "doctor": ("tracegrade.cli.doctor:command", "What is wrong here, and what to set?"),
    "config": ("tracegrade.cli.config:command", "Check and show settings."),
    "tokens": ("tracegrade.cli.tokens:command", "Make, list, rotate and revoke tokens."),
    "redact": ("tracegrade.cli.redact:command", "What would redaction take out of recorded traces?"),
    "backup": ("tracegrade.cli.backup:command", "Copy the data folder and the store while serve works."),
    "restore": ("tracegrade.cli.backup:restore", "Bring a backup back into an empty folder."),
    "healthcheck": ("tracegrade.cli.healthcheck:command", "Is a running serve ready? For health checks of containers."),
    "set-aside": ("tracegrade.cli.set_aside:command", "List what crashed the judge, and retry it."),
}
HEADINGS = {
    "demo": "Run",
    "traces": "Look at what was judged",
    "rules": "Write rules",
    "replay": "Decide about a change",
    "doctor": "Administer",
}
"""The heading in the help, by the first command below it."""

_GUESSED = {
    "init": "there is nothing to set up; 'serve' makes its data folder, and 'rules new' writes a first rule",
    "status": "'doctor' says what is wrong, and 'healthcheck' whether serve is ready",
    "start": "'serve' receives and judges traces, and 'demo' shows it at work",
    "list": "'traces list', 'results list', 'rules list' and 'alerts list' are there",
    "show": "'traces show TRACE_ID' and 'alerts show ID' are there",
    "test": "'rules test' tests rules, and 'check' runs a program and judges it",
    "version": "write 'tracegrade --version'",
    "help": "write 'tracegrade --help'",
}
"""What people try that is no command, and what there is."""

COMMANDS = placed(
    _OWN,
    [
        (command.path, command.after, (command.target, command.help))
        for part in parts()
        for command in part.commands
        if command.after
    ],
)
"""name -> (``module:name``, one line of help), in the order shown."""


def _print_version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from tracegrade.build import build_version
        from tracegrade.cli.output import print_line

        print_line(f"tracegrade {build_version()}")
        context.exit()


@click.group(
    cls=Group,
    named=COMMANDS,
    headings=HEADINGS,
    guessed=_GUESSED,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, with the commit where it is no release, and exit.",
)
@click.pass_context
def main(context: click.Context) -> None:
    """Judges the tool calls of AI agents from their OpenTelemetry traces.

    Exit codes: 0 done or passed, 1 a gate or check failed, 2 wrong usage or settings, 3 not enough data to
    decide.
    """
    _open_closed_streams()
    if context.invoked_subcommand != "serve":
        # Others read much, keep it, and end: by default, a fifth of `rules check builtin:all` is looking for garbage.
        gc.set_threshold(100_000, 20, 50)


def _open_closed_streams() -> None:
    """Open the null device in place of each standard stream that was closed before, as by ``2>&-``.

    Otherwise the next file that is opened, such as a segment of the journal, gets its number, and what a library or a
    child prints would be written into it; and Python has None in place of the stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            os.set_inheritable(opened, True)
        if getattr(sys, name) is None:
            stream = open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # stays
            setattr(sys, name, stream)
