"""Which addresses an MCP server may have."""

import socket
from typing import Any

import pytest

from build import each
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.mcp.address import Allowed, checked_address
from tracegrade.suites.settings import split_host


def refused(url: str, *hosts: str, listeners: tuple[tuple[str, int], ...] = ()) -> str:
    with pytest.raises(SuiteError) as raised:
        checked_address(url, Allowed(hosts, listeners))
    assert str(raised.value).startswith(f"{url}: ")
    return str(raised.value).removeprefix(f"{url}: ")


@each(
    ("host", "is_what"),
    [
        ("169.254.169.254", "169.254.169.254 is a link-local address"),
        ("2852039166", "2852039166 is 169.254.169.254, a link-local address"),
        ("0xa9fea9fe", "0xa9fea9fe is 169.254.169.254, a link-local address"),
        ("0251.0376.0251.0376", "0251.0376.0251.0376 is 169.254.169.254, a link-local address"),
        ("169.254.43518", "169.254.43518 is 169.254.169.254, a link-local address"),
        ("[::ffff:169.254.169.254]", "::ffff:169.254.169.254 is 169.254.169.254, a link-local address"),
        ("[::ffff:a9fe:a9fe]", "::ffff:a9fe:a9fe is 169.254.169.254, a link-local address"),
        ("[::169.254.169.254]", "::169.254.169.254 is ::a9fe:a9fe, a link-local address"),
        ("[64:ff9b::a9fe:a9fe]", "64:ff9b::a9fe:a9fe is a link-local address"),
        ("[2002:a9fe:a9fe::1]", "2002:a9fe:a9fe::1 is a link-local address"),
        ("[2001:0:102:304::5601:5601]", "2001:0:102:304::5601:5601 is a link-local address"),
        ("[fe80::1]", "fe80::1 is a link-local address"),
        ("[fd00:ec2::254]", "fd00:ec2::254 is where a cloud keeps metadata and keys"),
        ("168.63.129.16", "168.63.129.16 is where a cloud keeps metadata and keys"),
        ("100.100.100.200", "100.100.100.200 is where a cloud keeps metadata and keys"),
        ("[64:ff9b:1::a00:1]", "64:ff9b:1::a00:1 is an address that a local gateway translates"),
        ("0", "0 is 0.0.0.0, not the address of a server"),
        ("[::]", ":: is not the address of a server"),
        ("255.255.255.255", "255.255.255.255 is not the address of a server"),
        ("224.0.0.1", "224.0.0.1 is not the address of a server"),
    ],
)
def test_some_are_never_asked_however_they_are_written(host: str, is_what: str) -> None:
    named = host.strip("[]")
    assert refused(f"http://{host}/mcp", named, "169.254.169.254") == f"{is_what}, which is never asked"


def test_an_interface_makes_no_other_address() -> None:
    assert refused("http://[fe80::1%1]/mcp", "fe80::1%1").endswith(" a link-local address, which is never asked")


@each(
    "host",
    [
        *("10.0.0.5", "192.168.1.2", "172.16.0.1", "127.0.0.1", "127.8.9.1", "100.64.0.1", "localhost", "2130706433"),
        *("[::1]", "[fd12::1]", "[fec0::1]", "[::ffff:10.0.0.5]", "[64:ff9b::a00:5]"),
    ],
)
def test_private_ones_are_asked_where_they_are_allowed(host: str) -> None:
    name = host.strip("[]")
    kind = "loopback" if name in ("::1", "localhost", "2130706433") or name.startswith("127.") else "private"
    said = refused(f"http://{host}:8000/mcp", "elsewhere", f"{host}:8001")
    assert said.endswith(
        f", a {kind} address, which is asked only if its host is allowed: add --allow-host {name}, or {name} to "
        "suites.mcp_hosts in the settings"
    ) or said.startswith(f"{name} is a {kind} address, which is asked only if")
    for entry in (host, f"{host}:8000"):
        assert checked_address(f"http://{host}:8000/mcp", Allowed([entry])).port == 8000


def test_a_host_is_allowed_by_its_address_too() -> None:
    assert checked_address("http://2130706433:81/", Allowed(["127.0.0.1:81"])).host == "2130706433"
    assert checked_address("http://[::ffff:127.0.0.1]/", Allowed(["127.0.0.1"])).port == 80


def test_public_ones_are_asked_at_the_address_that_was_found() -> None:
    found = checked_address("https://8.8.8.8/a/b?c=d#e", Allowed())
    assert (found.scheme, found.port, found.target, found.authority) == ("https", 443, "/a/b?c=d", "8.8.8.8")
    assert [address[0] for _, address in found.found] == ["8.8.8.8"]
    six = checked_address("http://[2001:4860:4860::8888]:99", Allowed())
    assert (six.port, six.target, six.authority) == (99, "/", "[2001:4860:4860::8888]:99")


def test_every_address_of_a_name_must_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (to, port)) for to in ("8.8.8.8", "169.254.169.254")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert refused("http://two.example/", "two.example").startswith("two.example is 169.254.169.254, a link-local")


@each(
    ("listening", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:4318/"),
        ("127.0.0.1", "http://localhost:4318/v1/traces"),
        ("localhost", "http://127.0.0.1:4318/"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]:4318/"),
        ("0.0.0.0", "http://127.0.0.1:4318/"),
        ("0.0.0.0", "http://127.77.0.1:4318/"),
        ("::", "http://127.0.0.1:4318/"),
    ],
)
def test_own_listeners_are_never_asked(listening: str, url: str) -> None:
    host = url.partition("//")[2].partition(":4318")[0]
    said = refused(url, host, listeners=((listening, 4318),))
    assert said.endswith(" this TraceGrade itself (port 4318), which is never asked")
    assert checked_address(url.replace("4318", "4320"), Allowed([host], [(listening, 4318)])).port == 4320


def test_a_listener_that_is_open_to_all_is_not_on_other_machines() -> None:
    assert checked_address("http://10.99.99.99:4318/", Allowed(["10.99.99.99"], [("0.0.0.0", 4318)])).port == 4318
    assert checked_address("http://127.0.0.1:81/", Allowed(["127.0.0.1"], [("nowhere.invalid", 81)])).port == 81


@each(
    ("url", "said"),
    [
        ("ftp://h/x", "expected http://HOST/PATH or https://HOST/PATH, in ASCII and without spaces"),
        ("http:///x", "expected http://HOST/PATH or https://HOST/PATH, in ASCII and without spaces"),
        ("http://h/a b", "expected http://HOST/PATH or https://HOST/PATH, in ASCII and without spaces"),
        ("http://h/ü", "expected http://HOST/PATH or https://HOST/PATH, in ASCII and without spaces"),
        ("http://h:0/", "expected http://HOST/PATH or https://HOST/PATH, in ASCII and without spaces"),
        ("http://h:99999/", "expected the address of an MCP server: Port out of range 0-65535"),
        ("http://[::1/", "expected the address of an MCP server: Invalid IPv6 URL"),
        ("http://nowhere.invalid/", "nowhere.invalid cannot be found: "),
    ],
)
def test_what_is_no_address_is_said(url: str, said: str) -> None:
    assert refused(url).startswith(said)


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(SuiteError) as raised:
        checked_address("http://me:hush@h/x?token=hush2", Allowed())
    assert str(raised.value) == (
        "http://me:**********@h/x?token=**********: expected an address without user and password; "
        "send them as a header"
    )


@each(
    ("entry", "found"),
    [
        ("LocalHost", ("localhost", None)),
        ("mcp.internal.:8000", ("mcp.internal", 8000)),
        ("[::1]:80", ("::1", 80)),
        ("0:0::1", ("::1", None)),
        ("10.0.0.1", ("10.0.0.1", None)),
    ],
)
def test_hosts_are_read(entry: str, found: tuple[str, int | None]) -> None:
    assert split_host(entry) == found


@each("entry", ["", "http://h", "h:x", "10.0.0.0/8", "[::1", "[x]:80", "a b", ":80"])
def test_what_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="HOST"):
        split_host(entry)
