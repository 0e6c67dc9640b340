"""An agent that a suite is run against: how it is asked, and how long it may take."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from tracegrade.display import without_secrets
from tracegrade.rule.prices import Price

PROMPT = "{prompt}"
"""Stands for the prompt in the arguments of a command."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SERVICE = "service.name="
_FREE_PORT = "127.0.0.1:0"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTarget:
    """An agent: a ``command`` that is started for each unit, or an HTTP endpoint at ``url``; one of the two is set.

    ``key`` is its label, as a model's. ``headers`` are sent to the endpoint, and shown nowhere. ``timeout_s`` is how
    long a unit may take, ``spans_within_s`` how long its spans are waited for after the agent has ended or answered.
    ``at_a_time`` units run at once. ``listen`` (HOST:PORT) is where spans are received; port 0 is a free one.
    """

    key: str
    command: Sequence[str] = ()
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 300.0
    spans_within_s: float = 15.0
    at_a_time: int = 1
    listen: str = _FREE_PORT

    @property
    def price(self) -> Price | None:
        """Of its tokens: None, since an agent may ask several models."""
        return None

    @property
    def asked_by(self) -> dict[str, object]:
        """What has to be the same for a run to go on; no secrets."""
        how = {"command": shlex.join(self.command)} if self.command else {"url": without_secrets(self.url)}
        return {"model": self.key, **how}


def command_words(written: str) -> list[str]:
    """The words of a command as a shell divides them; no shell runs it.

    Raises:
        ValueError: none, or a quote that is not closed.
    """
    try:
        words = shlex.split(written)
    except ValueError as error:
        raise ValueError(f"{written!r} cannot be divided into words: {error}; close what is quoted") from None
    if not words:
        raise ValueError("expected a program and its arguments, found nothing")
    if _ASSIGNMENT.match(words[0]):
        raise ValueError(
            f"{words[0]!r} sets a variable, which only a shell does; set it before, or write 'env {words[0]} ...'"
        )
    return words


def checked_url(url: str) -> str:
    """`url`, the address of an endpoint.

    Raises:
        ValueError: it is none of http or https, or has a user or a fragment; the message shows no secret.
    """
    shown = without_secrets(url)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"{shown!r} is no address: {error}; expected http://HOST:PORT/PATH") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected http://HOST:PORT/PATH or https://HOST/PATH, found {shown!r}")
    if "@" in parts.netloc:
        raise ValueError(f"expected an address without user and password, found {shown!r}; send them as a header")
    if not url.isascii() or not url.isprintable() or " " in url or parts.fragment:
        raise ValueError(f"expected an address in ASCII, without spaces and '#', found {shown!r}")
    return url


def name_of(command: Sequence[str], url: str, environment: Mapping[str, str]) -> str:
    """What an agent is called: by ``service.name`` in `environment`, else by its program or the host of its address."""
    if url:
        return urlsplit(url).netloc
    if service := environment.get("OTEL_SERVICE_NAME", "").strip():
        return service
    for item in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        if item.strip().startswith(_SERVICE):
            return unquote(item.strip().removeprefix(_SERVICE))
    program = PurePath(command[0]).name
    if re.match(r"(python|node|ruby|java|bash|sh|uv|npx|deno|bun|env)[\d.]*$", program):
        scripts = (PurePath(word) for word in command[1:] if not word.startswith("-") and word != PROMPT)
        return next((script.name for script in scripts if script.suffix in _SCRIPTS), program)
    return program


_SCRIPTS = frozenset({".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".jar", ".sh"})
