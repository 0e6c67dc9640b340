"""What commands ask before they delete."""

import sys

import click

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm_deletion(what: str, yes: bool) -> None:
    """Ask whether `what` is to be deleted, unless `yes`; raises `click.Abort` for no, `UsageError` for nobody there."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what} would be deleted for good; --yes does so without asking")
    click.confirm(f"Delete {what} for good?", abort=True, err=True)
