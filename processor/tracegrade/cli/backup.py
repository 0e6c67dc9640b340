"""``tracegrade backup``: a copy of the data folder and the store."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.output import print_line, progress
from tracegrade.cli.private_files import make_files_private
from tracegrade.cli.settings_option import settings_options
from tracegrade.display import count

if TYPE_CHECKING:
    from tracegrade.config import Config


@click.command()
@click.option(
    "--to",
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="A new folder for this backup, best on another disk.",
)
@settings_options
def command(config: "Config", to: Path) -> None:
    """Copy the data folder and the SQLite store to a new folder, also while 'serve' works.

    The copy has everything that was answered before the command began. Bring it back with 'tracegrade restore'.

    Until it is whole, its name ends in .unfinished. It holds prompts, arguments and outputs as the data folder does,
    and what is deleted later stays in it: delete backups, too, when traces must be gone.
    """
    from tracegrade.backup.make import make_backup, total_bytes
    from tracegrade.backup.manifest import backup_errors

    make_files_private()
    with backup_errors(to), progress("copying, bytes", total_bytes(config)) as advance:
        manifest = make_backup(config, to, advance)
    print_line(f"{to}: {count(len(manifest.files), 'file')}, {manifest.size:,} bytes, each with its checksum")
    for left_out in manifest.left_out:
        print_line(f"  not in it: {left_out}")
