"""The ``tracegrade`` command: arguments in, one call, text out.

Commands are loaded when they are used, so that ``--help`` and completion stay quick and a command line that only
reads files never imports a server.
"""

import gc
import os
import sys

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.registry import COMMANDS, GUESSED, HEADINGS


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
    guessed=GUESSED,
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
