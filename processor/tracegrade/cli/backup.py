"""``tracegrade backup`` and ``tracegrade restore``: a copy of the data folder and the store."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.output import print_line, progress
from tracegrade.cli.process import make_files_private
from tracegrade.cli.settings import settings_options
from tracegrade.display import count, time_text

if TYPE_CHECKING:
    from tracegrade.config import Config


@click.command(cls=Command)
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


@click.command(cls=Command)
@click.argument("backup", type=click.Path(path_type=Path))
@settings_options
def restore(config: "Config", backup: Path) -> None:
    """Bring the backup in the folder BACKUP back to the data folder and the store of the settings.

    Both must be empty or missing. Every file is checked first. Then start 'serve' with these settings: it goes on from
    the time of the backup. Do not serve the folder that was backed up beside it: both would forward what was not yet
    forwarded then.
    """
    from tracegrade.backup.manifest import backup_errors, read_manifest
    from tracegrade.backup.restore import restore

    make_files_private()
    with backup_errors(config.data_path), progress("copying, bytes", read_manifest(backup).size) as advance:
        manifest = restore(backup, config, advance)
    print_line(
        f"{config.data_path}: as of {time_text(manifest.begun_ns)} UTC, made by TraceGrade {manifest.version}. "
        "Start 'tracegrade serve'; 'tracegrade replay' judges all of its requests again"
    )
    for left_out in manifest.left_out:
        print_line(f"  not in it: {left_out}")
