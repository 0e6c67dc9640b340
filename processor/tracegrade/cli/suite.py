"""``tracegrade suite``: suites of cases."""

import click

from tracegrade.cli.suite_import import import_


@click.group()
def command() -> None:
    """Make suites of cases for models."""


command.add_command(import_)
