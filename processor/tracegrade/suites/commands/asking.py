"""The options by which commands ask an MCP server for its tools, and ``suite run`` an agent of one's own."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Never, TypeVar

import click

from tracegrade.cli.options import together
from tracegrade.cli.settings import config_option, data_dir_option
from tracegrade.document.duration import duration_s
from tracegrade.model.errors import WrongValue

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.suites.agents.target import AgentTarget
    from tracegrade.suites.mcp.client import Listed

R = TypeVar("R")
V = TypeVar("V")


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
        from tracegrade.suites.headers import OWN_HEADERS

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
    from tracegrade.suites.headers import HEADER_NAME, is_sendable

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


_OWN_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "host",
        "traceparent",
        "tracestate",
        "transfer-encoding",
        "user-agent",
    }
)
_AFTER_END, _AFTER_ANSWER = "3s", "15s"
_options = together(
    click.option(
        "--agent-command",
        "command",
        metavar="'COMMAND ARG...'",
        help="Your own agent, started without a shell for each run of a case: it gets the prompt as standard input, "
        "and where {prompt} stands in an argument.",
    ),
    click.option(
        "--agent-url",
        "url",
        metavar="URL",
        help="Your own agent, asked by a POST of JSON: {prompt, case}, with a header traceparent.",
    ),
    click.option(
        "--agent-name",
        "name",
        metavar="NAME",
        help="What the agent is called in tables; without it, by service.name in the environment, its program or host.",
    ),
    click.option(
        "--agent-header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="Send this to --agent-url, too, such as 'Authorization: Bearer ${env:TOKEN}'. Never shown; repeatable.",
    ),
    click.option(
        "--agent-timeout",
        "timeout",
        default="5m",
        show_default=True,
        metavar="DURATION",
        help="An agent that takes longer for a case is ended, and the case is an error.",
    ),
    click.option(
        "--agent-spans-within",
        "within",
        metavar="DURATION",
        help=f"How long to wait for spans after a command has ended ({_AFTER_END} if not set) or an endpoint has "
        f"answered ({_AFTER_ANSWER}).",
    ),
    click.option(
        "--listen",
        metavar="HOST:PORT",
        help="Where the agent's spans are received, OTLP by gRPC and HTTP; without it, on a free port of this machine.",
    ),
)


class _AgentAsked(NamedTuple):
    """An agent as the options above describe it."""

    command: str | None
    url: str | None
    name: str | None
    headers: Sequence[str]
    timeout: str
    within: str | None
    listen: str | None

    def agent(self, at_a_time: int) -> "AgentTarget | None":
        """The agent, if there is one.

        Raises:
            UsageError: options that do not fit, or none of which agent they are.
        """
        from tracegrade.receive.settings import split_endpoint
        from tracegrade.suites.agents.target import AgentTarget, checked_url, command_words, name_of

        command, url, name, headers, timeout, within, listen = self
        if command is None and url is None:
            if headers or listen is not None or name is not None or within is not None:
                raise click.UsageError("--listen and --agent-... are of an agent: give --agent-command or --agent-url")
            return None
        if command is not None and url is not None:
            raise click.UsageError("--agent-command and --agent-url are two ways to ask one agent; give one of them")
        if headers and url is None:
            raise click.UsageError("--agent-header is sent to --agent-url; a command reads its environment")
        words = _parsed("--agent-command", command_words, command) if command is not None else []
        address = _parsed("--agent-url", checked_url, url) if url is not None else ""
        if listen is not None:
            _parsed("--listen", split_endpoint, listen)
        key = (name if name is not None else name_of(words, address, os.environ)).strip()
        if not key or not key.isprintable() or len(key) > 100:
            raise click.UsageError(f"--agent-name: expected 1 to 100 printable characters, found {key!r}")
        longest_s = _parsed("--agent-timeout", duration_s, timeout)
        within_s = _parsed("--agent-spans-within", duration_s, within or (_AFTER_ANSWER if url else _AFTER_END))
        for option, found_s in (("--agent-timeout", longest_s), ("--agent-spans-within", within_s)):
            if found_s <= 0:
                raise click.UsageError(f"{option}: expected a time longer than 0")
        where = {"listen": listen} if listen is not None else {}
        return AgentTarget(
            key=key,
            command=tuple(words),
            url=address,
            headers=read_headers("--agent-header", headers, _OWN_HEADERS),
            timeout_s=longest_s,
            spans_within_s=within_s,
            at_a_time=at_a_time,
            **where,
        )


def agent_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options of an agent; the command is called with ``agent``, which makes it for so many units at once."""

    @wraps(function)
    def wrapper(max_parallel: int | None, **arguments: Any) -> R:
        asked = _AgentAsked(**{name: arguments.pop(name) for name in _AgentAsked._fields})
        return function(agent=asked.agent(max_parallel or 1), max_parallel=max_parallel, **arguments)

    return _options(wrapper)


def _parsed(option: str, read: Callable[[str], V], written: str) -> V:
    try:
        return read(written)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
