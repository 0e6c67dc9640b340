"""The options by which a command asks an MCP server for its tools: what may be asked, and with which headers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracegrade.cli.header_option import read_headers
from tracegrade.cli.settings_option import config_option, data_dir_option

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.suites.mcp.client import Listed

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Asking:
    """How servers are asked. The settings are read only where one is, since files are imported without any."""

    allowed_hosts: Sequence[str]
    headers: dict[str, str]
    config_path: Path | None
    data_dir: str | None

    def config(self) -> "Config":
        """All settings; raises `FileError` for wrong ones."""
        from tracegrade.config import load_config

        return load_config(self.config_path, data_dir=self.data_dir, allow_unset=True)

    def listed(self, server: str) -> "Listed":
        """The tools of `server`; raises as `list_tools`, and `FileError` for wrong settings."""
        from tracegrade.suites.mcp.address import Allowed
        from tracegrade.suites.mcp.tools import list_tools

        config = self.config()
        allowed = Allowed([*config.suites.mcp_hosts, *self.allowed_hosts], config.listeners)
        return list_tools(server, allowed, self.headers)


def asking_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--allow-host``, ``--header`` and where settings are; the command is called with them as ``asking``."""

    @click.option(
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="HOST[:PORT]",
        help="Ask this host though its address is private or loopback, beside those of suites.mcp_hosts in the "
        "settings; repeatable.",
    )
    @click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="Send this with every request to the server, such as 'Authorization: Bearer ${env:TOKEN}', where "
        "${env:TOKEN} is read from the environment. Never shown; repeatable.",
    )
    @config_option
    @data_dir_option
    @wraps(function)
    def wrapper(
        hosts: Sequence[str], headers: Sequence[str], config_path: Path | None, data_dir: str | None, **arguments: Any
    ) -> R:
        from tracegrade.suites.mcp.headers import OWN_HEADERS

        sent = read_headers("--header", headers, OWN_HEADERS)
        asking = Asking([_host(entry) for entry in hosts], sent, config_path, data_dir)
        return function(asking=asking, **arguments)

    return wrapper


def _host(entry: str) -> str:
    from tracegrade.suites.settings import split_host

    try:
        split_host(entry)
    except ValueError as error:
        raise click.UsageError(f"--allow-host: {error}") from None
    return entry
