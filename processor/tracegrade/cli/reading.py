"""The settings of commands that show what is stored."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from tracegrade.alert.links import NO_LINKS, Links
from tracegrade.cli.output import reports_errors
from tracegrade.cli.quick_start import start_quickly
from tracegrade.cli.settings_option import config_option, data_dir_option
from tracegrade.store.place import DATA_DIR, sqlite_url

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What of the settings is needed to show what is stored."""

    store_url: str
    links: Links


def reading_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-c/--config`` and ``--data-dir``; the command is called with ``settings``, the `ReadSettings`."""

    @config_option
    @data_dir_option
    @wraps(function)
    @reports_errors
    def wrapper(config_path: Path | None, data_dir: str | None, **arguments: Any) -> R:
        start_quickly()
        return function(settings=read_settings(config_path, data_dir), **arguments)

    return wrapper


def read_settings(config_path: Path | None, data_dir: str | None) -> ReadSettings:
    """The settings that `load_config` gives.

    Without a file they are known, and nothing can be wrong: importing what checks a file takes as long as showing what
    is stored.

    Raises:
        FileError: every mistake in the file, with its line and column.
    """
    if config_path is None:
        return ReadSettings(sqlite_url(Path(DATA_DIR if data_dir is None else data_dir)), NO_LINKS)
    from tracegrade.config import load_config

    config = load_config(config_path, data_dir=data_dir)
    return ReadSettings(config.store_url, config.alerts.links)
