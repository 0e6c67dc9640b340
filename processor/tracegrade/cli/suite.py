"""``tracegrade suite``: suites of cases."""

import click

from tracegrade.cli.stored_suites import delete, export, list_, show
from tracegrade.cli.suite_import import import_
from tracegrade.cli.suite_run import run


@click.group()
def command() -> None:
    """Keep suites of cases for models, and run them."""


for one in (import_, list_, show, export, delete, run):
    command.add_command(one)
