"""Options by which a command finds its settings, and the settings of commands that show what is stored."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracegrade.alert.notify.links import NO_LINKS, Links
from tracegrade.cli.options import tenant_option
from tracegrade.rule.reading import FILES_ALONE, RuleReading
from tracegrade.store.files import DATA_DIR, is_absent, sqlite_url

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tracegrade.config import Config
    from tracegrade.rule.prices import Price

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


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What of the settings is needed to show what is stored: ``prices`` of models, ``rules``, how these are read.

    ``tenant`` is whose data is shown; None: every tenant's. ``config_path`` and ``data_dir`` are where they are from,
    as they were given.
    """

    store_url: str
    links: Links
    prices: "Mapping[str, Price]" = field(default_factory=dict)
    rules: RuleReading = FILES_ALONE
    config_path: Path | None = field(default=None, compare=False)
    data_dir: str | None = field(default=None, compare=False)
    tenant: str | None = None

    def store(self) -> "AbstractContextManager[Connection]":
        """The store, or the tenant's part of it, to be read. Raises as `open_store`."""
        from tracegrade.store.open import reading_store

        return reading_store(self.store_url, self.tenant)

    @property
    def have_no_store(self) -> bool:
        """Whether nothing can be stored: asked before what reads a store is imported, which takes long."""
        return is_absent(self.store_url)

    def whole(self) -> "Config":
        """All settings; reading them takes as long as showing what is stored."""
        from tracegrade.config import load_config

        return load_config(self.config_path, data_dir=self.data_dir, allow_unset=True)

    @property
    def has_prices(self) -> bool:
        """Whether some model has a price."""
        return bool(self.prices)


def reading_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-c/--config`` and ``--data-dir``; the command is called with ``settings``, the `ReadSettings`."""
    return options_read_by(read_settings, "settings")(function)


def tenant_reading_options(function: Callable[..., R]) -> Callable[..., R]:
    """As `reading_options`, with ``--tenant``."""

    @tenant_option
    @reading_options
    @wraps(function)
    def wrapper(settings: ReadSettings, tenant: str | None, **arguments: Any) -> R:
        return function(settings=replace(settings, tenant=tenant), **arguments)

    return wrapper


def read_settings(config_path: Path | None, data_dir: str | None) -> ReadSettings:
    """The settings that `load_config` gives.

    Without a file they are known, and nothing can be wrong: importing what checks a file takes as long as showing what
    is stored.

    Raises:
        FileError: every mistake in the file, with its line and column; an environment variable that is not set is one
            where it is needed to show what is stored.
    """
    if config_path is None:
        return ReadSettings(sqlite_url(Path(DATA_DIR if data_dir is None else data_dir)), NO_LINKS, data_dir=data_dir)
    from tracegrade.config import load_config

    config = load_config(config_path, data_dir=data_dir, allow_unset=True)
    prices, rules = config.traces.prices, config.rules.reading
    return ReadSettings(config.store_url, config.alerts.links, prices, rules, config_path, data_dir)
