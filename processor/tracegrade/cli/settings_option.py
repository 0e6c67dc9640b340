"""The two options by which a command finds its settings: ``-c`` and ``--data-dir``."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracegrade.cli.output import reports_errors

if TYPE_CHECKING:
    from tracegrade.config import Config

R = TypeVar("R")

config_option = click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="TRACEGRADE_CONFIG",
    show_envvar=True,
    help="The settings file; without one, the defaults.",
)
data_dir_option = click.option(
    "--data-dir",
    metavar="FOLDER",
    envvar="TRACEGRADE_DATA_DIR",
    show_envvar=True,
    help="The folder of journal and store; overrides the settings.",
)


def options_read_by(
    load: Callable[[Path | None, str | None], Any], name: str
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add ``-c/--config`` and ``--data-dir``; the command is called with what `load` makes of both, as `name`."""

    def add(function: Callable[..., R]) -> Callable[..., R]:
        @config_option
        @data_dir_option
        @wraps(function)
        @reports_errors
        def wrapper(config_path: Path | None, data_dir: str | None, **arguments: Any) -> R:
            return function(**{name: load(config_path, data_dir)}, **arguments)

        return wrapper

    return add


def settings_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-c/--config`` and ``--data-dir``; the command is called with ``config``, read and checked.

    Parts of it that name unset environment variables are refused when the command looks into them.
    """
    return options_read_by(_read_and_checked, "config")(function)


def _read_and_checked(config_path: Path | None, data_dir: str | None) -> "Config":
    from tracegrade.config import load_config

    return load_config(config_path, data_dir=data_dir, allow_unset=True)
