"""The option of commands that can read a run instead of what was judged live."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sqlalchemy import Connection

LIVE = "live"
BACKFILL = "backfill"

run_option = click.option(
    "--run",
    default=LIVE,
    metavar="NAME",
    help="Of this run, which 'replay --experiment' stored, instead of what was judged live; 'backfill': what 'rules "
    "backtest --store' added.",
)


def check_run(connection: "Connection", run: str) -> None:
    """Check that there is such a run.

    Raises:
        NotFound: there is none of that name.
    """
    if run != LIVE:
        from tracegrade.history.runs.experiments import check_stored

        check_stored(connection, run)
