"""The settings of commands that show what is stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracegrade.alert.notify.links import NO_LINKS, Links
from tracegrade.cli.settings_option import options_read_by
from tracegrade.rule.reading import FILES_ALONE, RuleReading
from tracegrade.store.place import DATA_DIR, sqlite_url

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.rule.prices import Price

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What of the settings is needed to show what is stored: ``prices`` of models, ``rules``, how these are read.

    ``config_path`` and ``data_dir`` are where they are from, as they were given.
    """

    store_url: str
    links: Links
    prices: "Mapping[str, Price]" = field(default_factory=dict)
    rules: RuleReading = FILES_ALONE
    config_path: Path | None = field(default=None, compare=False)
    data_dir: str | None = field(default=None, compare=False)

    def whole(self) -> "Config":
        """All settings; reading them takes as long as showing what is stored."""
        from tracegrade.config import load_config

        return load_config(self.config_path, data_dir=self.data_dir)

    @property
    def has_prices(self) -> bool:
        """Whether some model has a price."""
        return bool(self.prices)


def reading_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-c/--config`` and ``--data-dir``; the command is called with ``settings``, the `ReadSettings`."""
    return options_read_by(read_settings, "settings")(function)


def read_settings(config_path: Path | None, data_dir: str | None) -> ReadSettings:
    """The settings that `load_config` gives.

    Without a file they are known, and nothing can be wrong: importing what checks a file takes as long as showing what
    is stored.

    Raises:
        FileError: every mistake in the file, with its line and column.
    """
    if config_path is None:
        return ReadSettings(sqlite_url(Path(DATA_DIR if data_dir is None else data_dir)), NO_LINKS, data_dir=data_dir)
    from tracegrade.config import load_config

    config = load_config(config_path, data_dir=data_dir)
    prices, rules = config.traces.prices, config.rules.reading
    return ReadSettings(config.store_url, config.alerts.links, prices, rules, config_path, data_dir)
