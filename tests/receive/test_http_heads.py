"""Whatever bytes come where a request should begin: an answer below 500 or a closed connection, and few log lines."""

import asyncio
import logging
import re
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from build import each
from build.metric_snapshots import INSTANCE
from build.site import Site, serving
from receive.conftest import FakeJournal, until_closed
from tracegrade.config import TelemetrySettings, WebSettings
from tracegrade.receive.access import guarded
from tracegrade.receive.body import BodyBounds
from tracegrade.receive.http_connection import Bounds
from tracegrade.receive.http_head import host_name, names_this_machine
from tracegrade.receive.http_server import HttpServer
from tracegrade.receive.ingest import Ingest
from tracegrade.receive.listen import bound_socket
from tracegrade.receive.otlp_http import build_app
from tracegrade.serve.status import status_app
from tracegrade.telemetry.metrics import Telemetry
from tracegrade.web.access import Access

HOSTS = [
    "[",
    "[::1",
    "[::1]",
    "[::1]:80",
    "[v1.x]",
    "[zz]:1",
    "127.0.0.1:",
    "127.0.0.1:99999",
    "127.0.0.1:x",
    "]",
    "a b",
    "@",
    "a@b",
    "//",
    "ª",
    "\x00",
    "localhost",
    "LOCALHOST:4319",
    "x.localhost",
    "127.0.0.1.evil.example",
    "",
    "?",
    "#",
    "%5b",
]
TARGETS = [
    "/",
    "/v1/traces",
    "/metrics",
    "/healthz",
    "/login",
    "/login?next=//[",
    "/traces",
    "/api/v1/traces",
    "/static/x",
    "//[",
    "*",
    "http://[/",
    "/traces/%00",
    "/traces/%ff",
    "/%",
    "/ÿ",
    "/api/v1/Ã",
    "?",
    "/?x=%ff",
    "/traces?outcome=%00",
    "/v1/traces/",
    "/static/../x",
    "/static/%2e%2e/x",
]
NAMES = [
    "Host",
    "Origin",
    "Cookie",
    "Authorization",
    "Content-Type",
    "Content-Length",
    "Content-Encoding",
    "Sec-Fetch-Site",
    "Upgrade",
    "Connection",
    "Transfer-Encoding",
    "Accept",
    "Range",
    "If-None-Match",
    "If-Modified-Since",
    "tracegrade-instance",
    "Expect",
    "X",
]
VALUES = [
    "",
    "0",
    "1",
    "-1",
    "99999999999999999999",
    "chunked",
    "gzip",
    "h2c",
    "Upgrade",
    "Bearer",
    "Bearer ÿ",
    "Basic x",
    "http://[",
    "null",
    'tracegrade="',
    "$x=\x01",
    "bytes=-",
    "bytes=9-1",
    "bytes=0-,1-",
    "W/x",
    "Mon",
    "100-continue",
    "application/json",
    "application/x-protobuf",
    "text/html;q=x",
    "none",
    "websocket",
    "\x7f",
]
METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PRI", "get", "X", ""]

headers = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES + HOSTS)), max_size=4)
heads = st.builds(
    lambda method, target, host, more, version, body: (
        f"{method} {target} {version}\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in ([] if host is None else [("Host", host)]) + more)
        + f"\r\n{body}"
    ).encode("latin-1"),
    st.sampled_from(METHODS),
    st.sampled_from(TARGETS),
    st.none() | st.sampled_from(HOSTS),
    headers,
    st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.9", ""]),
    st.sampled_from(["", "{}", "0\r\n\r\n", "zz\r\n", "token=%ff&next=//["]),
)


class Servers:
    """The three HTTP servers, each on its port."""

    def __init__(self, loop: asyncio.AbstractEventLoop, page: Site) -> None:
        telemetry = Telemetry("receive")
        bounds = BodyBounds(1024 * 1024, "bound", within_s=0.2)
        settings = TelemetrySettings.model_validate({"auth": {"tokens": ["reads-by-a-token"]}})
        self.closed: list[str] = []
        self._servers: list[HttpServer] = []
        status = status_app(lambda: [telemetry.snapshot()], INSTANCE)
        self.ports = {
            "receive": self._start(loop, build_app(bounds, Ingest(FakeJournal(), telemetry, ["me"]))),
            "status": self._start(loop, guarded(status, "t", TelemetrySettings())),
            "status with tokens": self._start(loop, guarded(status_app(lambda: [], INSTANCE), "telemetry", settings)),
            "page": int(page.url.rpartition(":")[2]),
            "page with tokens": self._start(
                loop,
                Access(PlainTextResponse("in"), WebSettings.model_validate({"auth": {"tokens": ["reads-by-a-token"]}})),
            ),
        }

    def _start(self, loop: asyncio.AbstractEventLoop, app: ASGIApp) -> int:
        listening = bound_socket("test", "127.0.0.1:0")

        async def start() -> None:
            server = HttpServer(app, Bounds(read_header_timeout_s=0.3, read_timeout_s=0.3), None, self.closed.append)
            self._servers.append(server)
            self._running = asyncio.create_task(server.serve(sockets=[listening]))
            await server.listening.wait()

        asyncio.run_coroutine_threadsafe(start(), loop).result()
        port: int = listening.getsockname()[1]
        return port

    def stop(self) -> None:
        for server in self._servers:
            server.should_exit = server.force_exit = True

    def said(self, name: str, wire: bytes) -> bytes:
        """All that is answered to `wire` before the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.ports[name])) as connection:
            connection.sendall(wire)
            connection.shutdown(socket.SHUT_WR)
            return until_closed(connection)


@pytest.fixture(scope="module")
def servers(loop: asyncio.AbstractEventLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("page")) as page:
        servers = Servers(loop, page)
        yield servers
        servers.stop()


ALL = ["receive", "status", "status with tokens", "page", "page with tokens"]


@pytest.mark.parametrize("name", ALL)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wire=heads | st.binary(max_size=200))
@example(wire=b"GET / HTTP/1.1\r\nHost: [\r\n\r\n")
@example(wire=b"POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: http://[\r\n\r\n")
@example(wire=b"GET /login?next=http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n")
@example(wire=b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n")
@example(wire=b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
@example(wire=b"POST /ws HTTP/1.1\r\nHost: [\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x00")
def test_no_bytes_are_a_mistake_of_ours(
    servers: Servers, name: str, wire: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    answer = servers.said(name, wire)
    assert not re.search(rb"^HTTP/1\.1 5", answer, re.MULTILINE), answer[:300]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("host", ["[", "[::1", "[zz]", "a b", "\xaa", "x:y", "//"])
def test_what_is_no_host_is_told_so(servers: Servers, name: str, host: str) -> None:
    wire = f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")
    assert servers.said(name, wire).startswith(b"HTTP/1.1 400 ")
    twice = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"
    assert servers.said(name, twice).startswith(b"HTTP/1.1 400 ")


def test_malformed_requests_are_counted(servers: Servers) -> None:
    servers.closed.clear()
    servers.said("receive", b"no request at all\r\n\r\n")
    assert servers.closed == ["malformed"]


def test_the_status_pages_are_called_by_this_machines_name_or_with_a_token(servers: Servers) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: %s\r\n%s\r\n"
    assert servers.said("status", head % (b"localhost:8888", b"")).startswith(b"HTTP/1.1 200 ")
    assert servers.said("status", head % (b"evil.example", b"")).startswith(b"HTTP/1.1 421 ")
    guarded = "status with tokens"
    assert servers.said(guarded, head % (b"a.example", b"")).startswith(b"HTTP/1.1 401 ")
    assert servers.said(guarded, head % (b"a.example", b"Authorization: Bearer no\r\n")).startswith(b"HTTP/1.1 401 ")
    assert servers.said(guarded, head % (b"a.example", b"Authorization: Bearer reads-by-a-token\r\n")).startswith(
        b"HTTP/1.1 200 "
    )


@each(
    ("host", "name", "is_here"),
    [
        ("localhost", "localhost", True),
        ("LocalHost:4319", "localhost", True),
        ("a.localhost:1", "a.localhost", True),
        ("127.9.9.9:80", "127.9.9.9", True),
        ("[::1]:80", "::1", True),
        ("[0:0::1]", "::1", True),
        ("evil.example", "evil.example", False),
        ("127.0.0.1.evil.example", "127.0.0.1.evil.example", False),
        ("[2001:db8::1]", "2001:db8::1", False),
        ("", "", False),
        ("[::1", None, False),
        ("[::1]x", None, False),
        ("localhost@evil.example", None, False),
        ("localhost/", None, False),
    ],
)
def test_which_machine_a_host_header_names(host: str, name: str | None, is_here: bool) -> None:
    assert (host_name(host), names_this_machine(host)) == (name, is_here)
