"""Checks the ``Host`` header of every HTTP request before any address is read from it."""

import ipaddress
import re

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# A name or an address, in brackets when it is of version 6, and a port (RFC 9110, 7.2; RFC 3986, 3.2.2).
_HOST = re.compile(r"(?:(?P<name>[\w.~!$&'()*+,;=%-]*)|\[(?P<v6>[0-9A-Fa-f:.]+)\])(?::\d{0,5})?", re.ASCII)


class WholeHeads:
    """Passes on requests with a valid ``Host``; answers 400 to others, as RFC 9112, 3.2 says."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or handshake."""
        app = self._app
        if scope["type"] in ("http", "websocket"):
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            if len(hosts) > 1 or any(host_name(host.decode("latin-1")) is None for host in hosts):
                app = PlainTextResponse("expected one header 'host' with a name or an address, and a port\n", 400)
        await app(scope, receive, send)


def host_name(host: str) -> str | None:
    """The name or address that a ``Host`` header gives, without its port; None when it is no such header."""
    found = _HOST.fullmatch(host)
    if found is None:
        return None
    if (v6 := found["v6"]) is None:
        return found["name"].lower()
    try:
        return str(ipaddress.IPv6Address(v6))
    except ValueError:
        return None


def names_this_machine(host: str) -> bool:
    """Whether a ``Host`` header names this machine: by a name that no other site can have.

    A page of another site that a browser is made to take for this one (DNS rebinding) calls us by its own name.
    """
    name = host_name(host) or ""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
