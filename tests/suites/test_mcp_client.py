"""Our client of MCP servers, over both transports, and each thing that it refuses."""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from build import each
from suites.build.scripted_mcp import TOOL, WELCOME, Handler, Refused, Script, Server, event, scripted, sse_script
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.mcp.address import Allowed, checked_address
from tracegrade.suites.mcp.client import Listed, list_tools_at
from tracegrade.suites.mcp.transport import MAX_BYTES

HERE = Allowed(["127.0.0.1"])
SECRET = "sk-1234567890abcdef"
KEY = {"Authorization": f"Bearer {SECRET}"}
NO_JSON_RPC = "expected an MCP server: Failed to parse JSON response: "
NO_ENDPOINT = (
    "expected an MCP server; its stream of events does not begin with the event 'endpoint' and an address at the "
    "same server"
)
TWO_PAGES = [{"tools": [TOOL], "nextCursor": "c2"}, {"tools": [TOOL | {"name": "b"}]}]


def ask(url: str, headers: dict[str, str] | None = None, **bounds: float) -> Listed:
    return list_tools_at(checked_address(url, HERE), headers or {}, **bounds)


def refusal(script: Script, headers: dict[str, str] | None = None, **bounds: float) -> str:
    """What is said where the server does as scripted, without its address."""
    with scripted(script) as base, pytest.raises(SuiteError) as raised:
        ask(base + "/mcp", headers, **bounds)
    said = str(raised.value)
    assert said.startswith(f"{base}/mcp: ")
    assert "\n" not in said
    return said.removeprefix(f"{base}/mcp: ")


@pytest.mark.parametrize(
    ("script", "path"),
    [(Script(), "/mcp"), (Script(events=True), "/mcp"), (sse_script(), "/sse")],
    ids=["json", "events", "sse"],
)
def test_all_pages_are_read_after_the_handshake(script: Script, path: str) -> None:
    script.results["tools/list"] = TWO_PAGES.copy()
    script.before = [{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}]
    with scripted(script) as base:
        listed = ask(base + path, KEY)
    assert listed == Listed([TOOL, TOOL | {"name": "b"}], "weather")
    assert [name for name in script.methods if "/" in name or name == "initialize"][-4:] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/list",
    ]
    assert script.seen[-1][3]["params"] == {"cursor": "c2"}
    assert {headers.get("authorization") for _, _, headers, _ in script.seen} == {f"Bearer {SECRET}"}
    if path == "/mcp":
        assert script.headers("tools/list")["mcp-protocol-version"] == "2025-11-25"
    assert "mcp-protocol-version" not in script.headers("initialize")


def test_a_session_is_kept_and_ended() -> None:
    script = Script(session="s-9")
    with scripted(script) as base:
        ask(base + "/mcp")
    sessions = {(body or {}).get("method", verb): sent.get("mcp-session-id") for verb, _, sent, body in script.seen}
    assert script.methods[-1] == "DELETE"
    assert (sessions.pop("server/discover"), sessions.pop("initialize")) == (None, None)
    assert sessions == dict.fromkeys(["notifications/initialized", "GET", "tools/list", "DELETE"], "s-9")


@pytest.mark.parametrize("script", [Script(events=True), sse_script()], ids=["events", "sse"])
def test_what_a_server_asks_meanwhile_is_answered(script: Script) -> None:
    asked = [{"jsonrpc": "2.0", "id": "p", "method": "ping"}, {"jsonrpc": "2.0", "id": 8, "method": "roots/list"}]
    script.before = asked
    with scripted(script) as base:
        ask(base + ("/sse" if script.answers else "/mcp"))
    answers = [body for _, _, _, body in script.seen if body and "method" not in body]
    assert answers[:2] == [
        {"jsonrpc": "2.0", "id": "p", "result": {}},
        {"jsonrpc": "2.0", "id": 8, "error": {"code": -32600, "message": "List roots not supported"}},
    ]


@each("version", ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"))
def test_each_version_that_a_server_counters_with_is_spoken(version: str) -> None:
    script = Script()
    script.results["initialize"] = [WELCOME | {"protocolVersion": version}]
    with scripted(script) as base:
        ask(base + "/mcp")
    assert script.headers("tools/list")["mcp-protocol-version"] == version


def replying(status: int, text: str = "", kind: str = "text/html", **headers: str) -> Script:
    """A server that answers all alike."""
    script = Script()
    script.answers = dict.fromkeys(
        ["POST /mcp", "GET /mcp"], lambda handler: handler.say(status, text, kind, **headers)
    )
    return script


def listing(*pages: Any) -> Script:
    script = Script()
    script.results["tools/list"] = [*pages]
    return script


def welcoming(result: Any) -> Script:
    script = Script()
    script.results["initialize"] = [result]
    return script


@each(
    ("script", "said"),
    [
        pytest.param(
            replying(404),
            "expected an MCP server, found one that answers POST by 404 (text/html), and GET by 404 (text/html) "
            "without a stream of events",
            id="neither transport",
        ),
        pytest.param(
            replying(200, "<html>"),
            "expected an MCP server, found one that answers POST by 200 (text/html), and GET by 200 (text/html) "
            "without a stream of events",
            id="a web page",
        ),
        pytest.param(replying(200, "{", "application/json"), NO_JSON_RPC, id="broken JSON"),
        pytest.param(replying(200, "[" * 100_000, "application/json"), NO_JSON_RPC, id="deep JSON"),
        pytest.param(replying(200, '{"ok": true}', "application/json"), NO_JSON_RPC, id="another API"),
        pytest.param(
            replying(200, ": hello\n\n", "text/event-stream"),
            "expected an MCP server: SSE stream ended without a response",
            id="events without an answer",
        ),
        pytest.param(
            replying(401),
            "answers 401 Unauthorized; it may want a key: --header 'Authorization: Bearer ${env:NAME}'",
            id="no key",
        ),
        pytest.param(
            replying(307, Location="http://169.254.169.254/latest?token=abc"),
            "answers 307 Temporary Redirect, and redirects are not followed; if you trust the address, give it: "
            "http://169.254.169.254/latest?token=**********",
            id="a redirect",
        ),
        pytest.param(replying(503), "answers 503 Service Unavailable; try again later", id="a server's error"),
        pytest.param(
            replying(200, "x", "application/json", **{"Content-Encoding": "gzip"}),
            "answers something compressed, which it was not asked for",
            id="compressed",
        ),
        pytest.param(
            welcoming(WELCOME | {"protocolVersion": "2099-01-01"}),
            "expected an MCP server: Unsupported protocol version from the server: 2099-01-01",
            id="a later version",
        ),
        pytest.param(
            welcoming(Refused({"code": -32022, "message": "no", "data": {"supported": ["2030-01-01"]}})),
            'expected an MCP server: it speaks other versions of MCP: {"supported": ["2030-01-01"]}',
            id="only a later version",
        ),
        pytest.param(
            welcoming(Refused({"code": -32603, "message": "boom\x1b[2J"})),
            "answers with error -32603: boom\\x1b[2J",
            id="an error",
        ),
        pytest.param(listing({"tools": []}), "has no tools: its list is empty", id="no tools"),
        pytest.param(
            listing(Refused({"code": -32601, "message": "?"})),
            "has no tools: it does not know tools/list",
            id="no such method",
        ),
        pytest.param(
            listing({"tools": ["a"]}),
            "expected an MCP server: tools.0: Input should be a valid dictionary or instance of Tool",
            id="tools as text",
        ),
        pytest.param(listing("x"), NO_JSON_RPC, id="a result as text"),
        pytest.param(listing({"tools": [TOOL] * 1001}), "lists more than 1000 tools", id="too many tools"),
        pytest.param(
            listing({"tools": [TOOL], "nextCursor": "again"}),
            "lists its tools on more than 100 pages",
            id="pages without end",
        ),
        pytest.param(
            listing({"tools": [TOOL | {"description": "x" * MAX_BYTES}]}),
            "answers more than 8,388,608 bytes",
            id="too large",
        ),
        pytest.param(
            listing({"tools": [TOOL | {"description": "x" * 400_000}], "nextCursor": "again"}),
            "answers more than 8,388,608 bytes",
            id="too large over all pages",
        ),
    ],
)
def test_what_is_refused_is_said_in_one_sentence(script: Script, said: str) -> None:
    found = refusal(script)
    assert found == said or (said == NO_JSON_RPC and found.startswith(said))


def test_an_event_of_the_older_transport_is_bounded() -> None:
    script = sse_script()
    script.results["tools/list"] = [{"tools": [TOOL | {"description": "x" * 2**20}]}]
    with (
        scripted(script) as base,
        pytest.raises(SuiteError, match="expected an MCP server: Server-sent event exceeded"),
    ):
        ask(base + "/sse", answer_s=5)


def test_a_line_without_end_is_too_large_too() -> None:
    assert (
        refusal(replying(200, "data: " + "x" * MAX_BYTES, "text/event-stream")) == "answers more than 8,388,608 bytes"
    )


@each(
    ("status", "said"),
    [
        (401, "answers 401 Unauthorized; it may want a key: --header 'Authorization: Bearer ${env:NAME}'"),
        (
            307,
            "answers 307 Temporary Redirect, and redirects are not followed; if you trust the address, give it: /other",
        ),
    ],
)
def test_the_answer_to_the_older_transport_is_said(status: int, said: str) -> None:
    script = Script()
    script.answers = {
        "POST /mcp": lambda handler: handler.say(405),
        "GET /mcp": lambda handler: handler.say(status, Location="/other"),
    }
    assert refusal(script) == said
    assert script.methods[-1] == "GET"


@each("status", [401, 405, 503])
def test_a_server_need_not_give_a_stream_of_its_own(status: int) -> None:
    script = Script(session="s-9")
    script.answers["GET /mcp"] = lambda handler: handler.say(status)
    with scripted(script) as base:
        assert ask(base + "/mcp").tools == [TOOL]


def test_a_server_that_lost_the_session_is_not_asked_by_the_other_transport() -> None:
    def answer(handler: Handler) -> None:
        request = script.seen[-1][3]
        if request["method"] == "tools/list":
            handler.say(404)
        else:
            handler.say(200, json.dumps(script.answer_to(request)) if "id" in request else "")

    script = Script(session="s-9")
    script.answers["POST /mcp"] = answer
    assert refusal(script) == "answers with error -32600: Session terminated"


def test_no_answer_shows_the_key_that_it_repeats() -> None:
    script = Script()
    script.results["initialize"] = [Refused({"code": 1, "message": f"bad key {SECRET} in 'Bearer {SECRET}'"})]
    assert refusal(script, KEY) == "answers with error 1: bad key ********** in '**********'"
    assert refusal(replying(403), KEY) == "answers 403 Forbidden; the key that was sent is not accepted"
    echoing = listing({"tools": [TOOL | {"description": f"call me with {SECRET}"}]})
    with scripted(echoing) as base:
        assert ask(base + "/mcp", KEY).tools[0]["description"] == "call me with **********"


@each(
    "endpoint",
    [
        "http://169.254.169.254/latest",
        "http://127.0.0.1/x",
        "//127.0.0.2:PORT/x",
        "https://127.0.0.1:PORT/x",
        "http://u@127.0.0.1:PORT/x",
        "http://[/x",
    ],
)
def test_the_older_transport_posts_to_its_own_server_alone(endpoint: str) -> None:
    script = sse_script()
    with scripted(script) as base:
        script.endpoint = endpoint.replace("PORT", base.rpartition(":")[2])
        with pytest.raises(SuiteError, match="/sse: " + NO_ENDPOINT):
            ask(base + "/sse", answer_s=0.3)
    assert script.methods[-1] == "GET"


@each("endpoint", ["http://127.0.0.1:PORT/m?a=b", "//127.0.0.1:PORT/m?a=b", "m?a=b", "/m?a=b"])
def test_the_address_to_post_to_may_be_written_in_each_way(endpoint: str) -> None:
    script = sse_script()
    with scripted(script) as base:
        script.endpoint = endpoint.replace("PORT", base.rpartition(":")[2])
        assert ask(base + "/sse").tools == [TOOL]
    assert {path for verb, path, _, body in script.seen if verb == "POST" and path != "/sse"} == {"/m?a=b"}


def test_a_stream_that_is_none_of_mcp_is_refused() -> None:
    script = Script()
    script.answers = {
        "POST /mcp": lambda handler: handler.say(405),
        "GET /mcp": lambda handler: handler.say(200, event({"price": 1}), "text/event-stream"),
    }
    assert refusal(script, answer_s=0.3) == NO_ENDPOINT


@each("bounds", [{"most_s": 0.3}, {"answer_s": 0.3}])
def test_a_server_that_says_nothing_more_is_left_when_the_time_is_over(bounds: dict[str, float]) -> None:
    script = sse_script()
    script.answer_to = lambda request: {"jsonrpc": "2.0", "method": "notifications/progress"}  # type: ignore[method-assign]
    expected = "did not list all its tools within 0.3 s" if "most_s" in bounds else "no answer within 0.3 s"
    with scripted(script) as base, pytest.raises(SuiteError, match=f"/sse: {re.escape(expected)}$"):
        ask(base + "/sse", **bounds)


def test_a_handshake_of_tls_that_does_not_go_on_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(SuiteError, match=r"no answer within 0\.3 s"):
        ask(f"https://127.0.0.1:{silent.getsockname()[1]}/mcp", answer_s=0.3)


@contextmanager
def names(monkeypatch: pytest.MonkeyPatch, **addresses: str) -> Iterator[list[str]]:
    """Names that stand for addresses; what is looked up is noted."""
    real, asked = socket.getaddrinfo, list[str]()

    def look_up(host: Any, *arguments: Any, **more: Any) -> Any:
        asked.append(str(host))
        return real(addresses.get(str(host).replace(".", "_"), host), *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", look_up)
        yield asked


# What an attacker would name to reach this machine, its network, or a cloud's metadata.
TRIED = [
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "0xa9.0xfe.0xa9.0xfe"),
    *("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]", "[0:0:0:0:0:ffff:a9fe:a9fe]"),
    *("[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a00:1]", "[2002:a9fe:a9fe::1]", "[2001:0:102:304::5601:5601]", "[fe80::1]"),
    *("[fd00:ec2::254]", "[fd20:ce::254]", "168.63.129.16", "100.100.100.200", "192.0.0.192", "0", "[::]", "0.0.0.0"),
    *("255.255.255.255", "224.0.0.1", "[ff02::1]", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001"),
    *("localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.5", "192.168.1.2", "172.16.0.1", "[fd12::1]"),
]


@each("host", TRIED)
def test_no_address_of_those_that_were_tried_is_connected_to(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By no spelling, redirect, event of an endpoint or second answer of a name server."""
    script = sse_script()
    there = f"http://{host}:9/latest"
    script.endpoint = there
    script.answers["POST /redirected"] = lambda handler: handler.say(308, Location=there)
    connected: list[Any] = []
    real_connect = socket.socket.connect

    async def connect(loop: Any, opened: socket.socket, address: Any) -> None:
        connected.append(address[:2])
        opened.setblocking(True)
        real_connect(opened, address)
        opened.setblocking(False)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", connect)
    with pytest.raises(SuiteError):
        list_tools_at(checked_address(there, Allowed()), {})
    assert connected == []
    with scripted(script) as base:
        for path in ("/sse", "/redirected"):
            with pytest.raises(SuiteError):
                ask(base + path, answer_s=0.1)
        port = int(base.rpartition(":")[2])
        rebound = replace(checked_address(f"{base}/mcp", HERE), host="mcp.example", authority=f"mcp.example:{port}")
        with names(monkeypatch, mcp_example=host.strip("[]")) as asked:
            assert list_tools_at(rebound, {}).tools == [TOOL]
        assert asked == []
        assert set(connected) == {("127.0.0.1", port)}


def test_a_name_is_looked_up_once_for_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its second answer, which may be another, counts for nothing."""
    script = Script()
    script.results["tools/list"] = TWO_PAGES.copy()
    with scripted(script) as base, names(monkeypatch, mcp_example="127.0.0.1") as asked:
        port = base.rpartition(":")[2]
        server = checked_address(f"http://mcp.example:{port}/mcp", Allowed(["mcp.example"]))
        assert len(list_tools_at(server, {}).tools) == 2
    assert asked == ["mcp.example"]
    assert {headers["host"] for _, _, headers, _ in script.seen} == {f"mcp.example:{port}"}


def secured(*hosts: str, folder: Path) -> Callable[[Server], None]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*hosts).configure_cert(context)

    def wrap(server: Server) -> None:
        server.socket = context.wrap_socket(server.socket, server_side=True)

    return wrap


def test_a_certificate_must_be_that_of_the_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    allowed, script = Allowed(["mcp.example", "other.example"]), Script()
    with (
        scripted(script, secured("mcp.example", folder=tmp_path)) as base,
        names(monkeypatch, mcp_example="127.0.0.1", other_example="127.0.0.1"),
    ):
        port = base.rpartition(":")[2]
        assert list_tools_at(checked_address(f"https://mcp.example:{port}/mcp", allowed), {}).tools == [TOOL]
        usual = replace(checked_address("https://8.8.8.8/", Allowed()), host="mcp.example", authority="mcp.example")
        list_tools_at(replace(usual, target="/mcp", found=[(socket.AF_INET, ("127.0.0.1", int(port)))]), {})
        assert script.seen[-1][2]["host"] == "mcp.example"  # without the port, which is the usual one
        with pytest.raises(SuiteError, match=r"its certificate is not valid: Hostname mismatch.*'other\.example'"):
            list_tools_at(checked_address(f"https://other.example:{port}/mcp", allowed), {})


def test_nobody_there_is_said() -> None:
    with pytest.raises(SuiteError, match=r"^http://127\.0\.0\.1:9/mcp: cannot be reached: Connection refused$"):
        ask("http://127.0.0.1:9/mcp")


def test_what_is_no_http_is_said() -> None:
    def hang_up(handler: Handler) -> None:
        handler.wfile.write(b"SSH-2.0-x\r\n")
        handler.close_connection = True

    script = Script()
    script.answers["POST /mcp"] = hang_up
    assert refusal(script) == "cannot be reached: Server disconnected without sending a response."
