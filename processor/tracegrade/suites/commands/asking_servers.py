"""The options by which a command asks an MCP server for its tools: what may be asked, and with which headers."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, TypeVar

import click

from tracegrade.cli.settings import config_option, data_dir_option
from tracegrade.model.errors import WrongValue

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
        from tracegrade.suites.settings import suites_settings

        config = self.config()
        allowed = Allowed([*suites_settings(config).mcp_hosts, *self.allowed_hosts], config.listeners)
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


def read_headers(option: str, written: Sequence[str], own: Collection[str]) -> dict[str, str]:
    """Names and values of `option`; those in `own`, in lower case, are not taken. No message shows a value.

    ``${env:NAME}`` in a value is read from the environment.

    Raises:
        UsageError: no header, one that is set by TraceGrade, or one that cannot be sent.
    """
    from tracegrade.document.yaml_text import expand
    from tracegrade.suites.mcp.headers import HEADER_NAME, is_sendable

    found: dict[str, str] = {}
    for number, text in enumerate(written, 1):
        name, colon, value = text.partition(":")
        name = name.strip()
        if not colon or not HEADER_NAME.fullmatch(name):
            raise click.UsageError(f"{option}: expected 'NAME: VALUE' (the {number}. one, not shown: it may be a key)")
        if name.lower() in own:
            raise click.UsageError(f"{option}: {name} is set by TraceGrade itself; leave it out")

        def refuse(message: str, name: str = name) -> Never:
            raise click.UsageError(f"{option} {name}: {message}")

        try:
            value = expand(value.strip(), os.environ, refuse)[0].strip()
        except WrongValue as error:
            refuse(str(error))
        if not is_sendable(value):
            refuse("expected printable ASCII, found something else, which is not shown: it may be a key")
        found[name] = value
    return found
