"""The ``tracegrade`` command: arguments in, one call, text out.

Commands are loaded when they are used, so that ``--help`` and completion stay quick and a command line that only
reads files never imports a server.
"""

import gc
import os
import sys
from importlib import import_module

import click

# name -> (module, or module:function, one line of help); in the order shown.
COMMANDS = {
    "serve": ("cli.serve", "Receive, forward and judge traces."),
    "demo": ("cli.demo", "See it work: a small instrumented agent, judged."),
    "replay": ("cli.replay", "Judge stored traces again."),
    "check": ("compare.commands.check", "Run an agent's tests, and judge what it did in them."),
    "extract": ("cli.extract", "Show the tool calls read from traces."),
    "evaluate": ("cli.evaluate", "Judge calls given on the command line, one set or a batch."),
    "rules": ("cli.rules", "Check, test and list rule files."),
    "suite": ("suites.commands.suite", "Keep suites of cases for models, and run them."),
    "jobs": ("suites.commands.jobs", "Runs of suites in the background: show, cancel, resume."),
    "results": ("cli.results", "Show stored evaluations."),
    "compare": ("compare.commands.compare", "Is one release, agent, model or run worse than another?"),
    "gate": ("compare.commands.gate", "May this release go out? Pass rates against bounds and a baseline."),
    "baseline": ("compare.commands.baseline", "Save what gates compare with."),
    "traces": ("cli.traces", "Show stored traces."),
    "promote": ("cli.promote", "Make recorded traces tests of a rule."),
    "redact": ("cli.redact", "What would redaction take out of recorded traces?"),
    "why": ("cli.why", "Why was a trace judged as it was, or not at all?"),
    "alerts": ("cli.alerts", "Show alerts."),
    "experiments": ("cli.experiments", "Show and compare stored runs of replay."),
    "doctor": ("cli.doctor", "What is wrong here, and what to set?"),
    "tokens": ("cli.tokens", "Who may send, read and change: make, list, rotate and revoke tokens."),
    "set-aside": ("cli.set_aside", "List requests and traces that crashed the judge, and retry them."),
    "backup": ("cli.backup", "Copy the data folder and the store while serve works."),
    "restore": ("cli.backup:restore", "Bring a backup back into an empty folder."),
    "config": ("cli.config", "Check and show settings."),
}


class _LazyGroup(click.Group):
    """Imports a command's module when the command is first needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"tracegrade.{module}"), name or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _print_version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        from tracegrade.build import build_version
        from tracegrade.cli.output import print_line

        print_line(f"tracegrade {build_version()}")
        context.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
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
