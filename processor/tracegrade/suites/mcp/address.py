"""Where an MCP server is: its name is looked up once, and what must not be asked is refused before anything is sent.

Whoever names a server may mean one that only this machine can reach: a cloud's metadata, a database's console, our own
receiver. So link-local addresses, those of clouds' metadata and our own listeners are never asked, and other addresses
that are not public only where somebody allowed their host. What counts is the address that a name stands for, so no
spelling and no later answer of a name server gets around it.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/security_best_practices (server-side request
forgery); the registries https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry.
"""

import socket
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from tracegrade.display import without_secrets
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.settings import split_host

_LOOK_UP_S = 10.0
PORTS = {"http": 80, "https": 443}
"""What an address without a port means."""

_Address: TypeAlias = IPv4Address | IPv6Address
_Found: TypeAlias = tuple[socket.AddressFamily, tuple[Any, ...]]

_LINK_LOCAL = "a link-local address"
_METADATA = "where a cloud keeps metadata and keys"
_NO_SERVER = "not the address of a server"
_NEVER = [
    (ip_network(network), what)
    for network, what in {
        "169.254.0.0/16": _LINK_LOCAL,
        "fe80::/10": _LINK_LOCAL,
        "100.100.100.200/32": _METADATA,  # Alibaba
        "192.0.0.192/32": _METADATA,  # Oracle
        "168.63.129.16/32": _METADATA,  # Azure; a public address that is answered inside a machine's host
        "fd00:ec2::/32": _METADATA,  # Amazon
        "fd20:ce::254/128": _METADATA,  # Google
        "0.0.0.0/8": _NO_SERVER,
        "::/128": _NO_SERVER,
        "64:ff9b:1::/48": "an address that a local gateway translates",  # to which one, is not to be seen from it
        "224.0.0.0/4": _NO_SERVER,
        "240.0.0.0/4": _NO_SERVER,
        "ff00::/8": _NO_SERVER,
    }.items()
]
# IPv6 networks whose addresses end in the IPv4 address that they stand for.
_ENDS_IN_IPV4 = [ip_network(n) for n in ("::ffff:0:0:0/96", "64:ff9b::/96", "::/96")]


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be asked: ``hosts`` are those that may be private, ``listeners`` our own, as host and port.

    ``has_option`` says that the caller can name further hosts itself, by ``--allow-host``.
    """

    hosts: Collection[str] = ()
    listeners: Sequence[tuple[str, int]] = ()
    has_option: bool = True


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server that may be asked, and the socket addresses to connect to.

    ``url`` is as it was written, to be shown, without secrets; ``target`` is path and query; ``authority`` is what the
    header Host says.
    """

    url: str
    scheme: str
    host: str
    port: int
    target: str
    authority: str
    found: Sequence[_Found]


def checked_address(url: str, allowed: Allowed) -> ServerAddress:
    """The server at `url`, whose name is looked up here and nowhere else.

    Raises:
        SuiteError: no address, none that can be found, or one that is not to be asked.
    """
    shown = without_secrets(url)
    scheme, host, port, target = _parts(url, shown)
    found = _looked_up(host, port, shown)
    listeners = [(_own_addresses(name), number) for name, number in allowed.listeners if number]
    for _, socket_address in found:
        _check(ip_address(socket_address[0]), host, port, allowed, listeners, shown)
    name = f"[{host}]" if ":" in host else host
    authority = name if port == PORTS[scheme] else f"{name}:{port}"
    return ServerAddress(shown, scheme, host, port, target, authority, found)


def _parts(url: str, shown: str) -> tuple[str, str, int, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise SuiteError(f"{shown}: expected the address of an MCP server: {error}") from None
    if parts.scheme not in PORTS or not host or not url.isascii() or not url.isprintable() or " " in url or port == 0:
        raise SuiteError(f"{shown}: expected http://HOST/PATH or https://HOST/PATH, in ASCII and without spaces")
    if "@" in parts.netloc:
        raise SuiteError(f"{shown}: expected an address without user and password; send them as a header")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, host.rstrip("."), port or PORTS[parts.scheme], target


def _looked_up(host: str, port: int, shown: str) -> list[_Found]:
    """The socket addresses of `host`; a name server that does not answer is not waited for."""
    answers: SimpleQueue[list[_Found] | OSError] = SimpleQueue()

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([(family, address) for family, _, _, _, address in found])
        except (OSError, UnicodeError) as error:
            answers.put(error if isinstance(error, OSError) else OSError(0, str(error)))

    Thread(target=look_up, daemon=True).start()
    try:
        found = answers.get(timeout=_LOOK_UP_S)
    except Empty:
        raise SuiteError(f"{shown}: no name server tells the address of {host} within {_LOOK_UP_S:g} s") from None
    if isinstance(found, OSError):
        raise SuiteError(f"{shown}: {host} cannot be found: {found.strerror or found}") from None
    return found


def _check(
    address: _Address,
    host: str,
    port: int,
    allowed: Allowed,
    listeners: Sequence[tuple[Collection[_Address], int]],
    shown: str,
) -> None:
    """Raise unless `address`, which `host` stands for, may be asked."""
    meant = list(_reached_addresses(address))
    text = str(meant[0])
    is_what = f"{shown}: {text} is" if text == host else f"{shown}: {host} is {text},"
    for one in meant:
        never = next((what for network, what in _NEVER if one in network), None)
        if never is not None:
            raise SuiteError(f"{is_what} {never}, which is never asked")
        if any(port == number and _reaches(one, own) for own, number in listeners):
            raise SuiteError(f"{is_what} this TraceGrade itself (port {port}), which is never asked")
    if all(map(_is_public, meant)) or any(_allows(entry, host, port, meant) for entry in allowed.hosts):
        return
    kind = "loopback" if any(one.is_loopback for one in meant) else "private"
    option = f"--allow-host {host}, or " if allowed.has_option else ""
    raise SuiteError(
        f"{is_what} a {kind} address, which is asked only if its host is allowed: add {option}{host} to "
        "suites.mcp_hosts in the settings"
    )


def _reached_addresses(address: _Address) -> Iterator[_Address]:
    """`address`, and the IPv4 address within it that a gateway or the system itself would go on to."""
    if isinstance(address, IPv4Address):
        yield address
    elif address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    else:
        yield address
        number = int(address)
        if any(address in network for network in _ENDS_IN_IPV4) and number >> 24:  # else :: or ::1
            yield IPv4Address(number & 0xFFFFFFFF)
        if address.sixtofour is not None:
            yield address.sixtofour
        if address.teredo is not None:
            yield address.teredo[1]


def _is_public(address: _Address) -> bool:
    return address.is_global and not (isinstance(address, IPv6Address) and address.is_site_local)


def _allows(entry: str, host: str, port: int, meant: Sequence[_Address]) -> bool:
    """Whether `entry`, HOST or HOST:PORT, allows `host`, by its name or by its address."""
    name, number = split_host(entry)
    return number in (None, port) and (name == host.lower() or name in map(str, meant))


def _own_addresses(host: str) -> list[_Address]:
    """What our listener on `host` listens on; nothing where the name cannot be found, as it then cannot listen."""
    try:
        return [ip_address(found[4][0]) for found in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


def _reaches(address: _Address, own: Collection[_Address]) -> bool:
    """Whether a connection to `address` comes to a listener on one of `own`."""
    return address in own or (any(one.is_unspecified for one in own) and _is_of_this_machine(address))


def _is_of_this_machine(address: _Address) -> bool:
    """Whether this machine has `address`: only then can something listen on it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_STREAM) as own:
        try:
            own.bind((str(address), 0))
        except OSError:
            return False
    return True
