"""The options by which ``suite run`` asks an agent of one's own, in place of models or beside them."""

import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracegrade.cli.options import together
from tracegrade.document.duration import duration_s
from tracegrade.suites.commands.asking_servers import read_headers

if TYPE_CHECKING:
    from tracegrade.suites.agents.target import AgentTarget

R = TypeVar("R")

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
        help=f"How long spans are waited for after a command has ended ({_AFTER_END} if not set) or an endpoint has "
        f"answered ({_AFTER_ANSWER}).",
    ),
    click.option(
        "--listen",
        metavar="HOST:PORT",
        help="Where the agent's spans are received, OTLP by gRPC and HTTP; without it, on a free port of this machine.",
    ),
)


def agent_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add the options of an agent; the command is called with ``agent``, which makes it for so many units at once."""

    @wraps(function)
    def wrapper(
        command: str | None,
        url: str | None,
        name: str | None,
        headers: Sequence[str],
        timeout: str,
        within: str | None,
        listen: str | None,
        max_parallel: int | None,
        **arguments: Any,
    ) -> R:
        agent = None
        if command is not None or url is not None:
            agent = _agent(command, url, name, headers, timeout, within, listen, max_parallel or 1)
        elif headers or listen is not None or name is not None or within is not None:
            raise click.UsageError("--listen and --agent-... are of an agent: give --agent-command or --agent-url")
        return function(agent=agent, max_parallel=max_parallel, **arguments)

    return _options(wrapper)


def _agent(
    command: str | None,
    url: str | None,
    name: str | None,
    headers: Sequence[str],
    timeout: str,
    within: str | None,
    listen: str | None,
    at_a_time: int,
) -> "AgentTarget":
    """The agent of these options; raises `UsageError`."""
    from tracegrade.receive.settings import split_endpoint
    from tracegrade.suites.agents.target import AgentTarget, checked_url, command_words, name_of

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


V = TypeVar("V")


def _parsed(option: str, read: Callable[[str], V], written: str) -> V:
    try:
        return read(written)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
