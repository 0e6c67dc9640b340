"""``tracegrade suite``: suites of cases."""

import click

from tracegrade.cli.suite_import import import_
from tracegrade.cli.suite_run import run


@click.group()
def command() -> None:
    """Make suites of cases for models, and run them."""


command.add_command(import_)
command.add_command(run)
