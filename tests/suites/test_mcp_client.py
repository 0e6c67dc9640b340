"""Our client of MCP servers, over both transports, and each thing that it refuses."""

import json
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
from tracegrade.suites.mcp.client import VERSIONS, Listed, list_tools_at
from tracegrade.suites.mcp.connection import MAX_BYTES, ServerHttp
from tracegrade.suites.mcp.transports import Sse

HERE = Allowed(["127.0.0.1"])
SECRET = "sk-1234567890abcdef"
KEY = {"Authorization": f"Bearer {SECRET}"}
TWO_PAGES = [{"tools": [TOOL], "nextCursor": "c2"}, {"tools": [TOOL | {"name": "b"}]}]


def ask(url: str, headers: dict[str, str] | None = None) -> Listed:
    return list_tools_at(checked_address(url, HERE), headers or {})


def refusal(script: Script, headers: dict[str, str] | None = None, path: str = "/mcp") -> str:
    """What is said where the server does as scripted, without its address."""
    with scripted(script) as base, pytest.raises(SuiteError) as raised:
        ask(base + path, headers)
    said = str(raised.value)
    assert said.startswith(f"{base}{path}: ")
    assert "\n" not in said
    return said.removeprefix(f"{base}{path}: ")


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
    assert script.headers("tools/list")["mcp-protocol-version"] == "2025-11-25"
    assert "mcp-protocol-version" not in script.headers("initialize")


def test_a_session_is_kept_and_ended() -> None:
    script = Script(session="s-9")
    with scripted(script) as base:
        ask(base + "/mcp")
    sessions = [headers.get("mcp-session-id") for _, _, headers, _ in script.seen]
    assert script.methods == ["initialize", "notifications/initialized", "tools/list", "DELETE"]
    assert sessions == [None, "s-9", "s-9", "s-9"]


@pytest.mark.parametrize("script", [Script(events=True), sse_script()], ids=["events", "sse"])
def test_what_a_server_asks_meanwhile_is_answered(script: Script) -> None:
    asked = [{"jsonrpc": "2.0", "id": "p", "method": "ping"}, {"jsonrpc": "2.0", "id": 8, "method": "roots/list"}]
    script.before = asked
    with scripted(script) as base:
        ask(base + ("/sse" if script.answers else "/mcp"))
    answers = [body for _, _, _, body in script.seen if body and "method" not in body]
    assert answers[:2] == [
        {"jsonrpc": "2.0", "id": "p", "result": {}},
        {"jsonrpc": "2.0", "id": 8, "error": {"code": -32601, "message": "Method not found"}},
    ]


@each("version", VERSIONS)
def test_each_version_that_a_server_counters_with_is_spoken(version: str) -> None:
    script = Script()
    script.results["initialize"] = [WELCOME | {"protocolVersion": version}]
    with scripted(script) as base:
        ask(base + "/mcp")
    assert script.headers("tools/list")["mcp-protocol-version"] == version


def test_a_server_that_names_its_versions_is_offered_one_of_them() -> None:
    script = Script()
    unsupported = {"code": -32602, "message": "Unsupported", "data": {"supported": ["2024-11-05", "2025-03-26"]}}
    script.results["initialize"] = [Refused(unsupported), WELCOME | {"protocolVersion": "2025-03-26"}]
    with scripted(script) as base:
        ask(base + "/mcp")
    offered = [body["params"]["protocolVersion"] for _, _, _, body in script.seen if body["method"] == "initialize"]
    assert offered == ["2025-11-25", "2025-03-26"]


@pytest.mark.parametrize(
    "refused",
    [
        {"code": -32601, "message": "no initialize"},
        {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"}},
    ],
)
def test_a_server_without_a_handshake_is_told_the_version_with_each_request(refused: Any) -> None:
    script = Script()
    script.results["initialize"] = [Refused(refused)]
    with scripted(script) as base:
        assert ask(base + "/mcp").tools == [TOOL]
    assert script.methods == ["initialize", "tools/list"]
    headers, meta = script.headers("tools/list"), script.seen[-1][3]["params"]["_meta"]
    assert (headers["mcp-protocol-version"], headers["mcp-method"]) == ("2026-07-28", "tools/list")
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "tracegrade"


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
            "expected an MCP server, found one that answers POST by 404, and GET by 404 without a stream of events",
            id="neither transport",
        ),
        pytest.param(
            replying(200, "<html>"),
            "expected an MCP server, which answers by JSON or events; found text/html",
            id="a web page",
        ),
        pytest.param(replying(200, "{", "application/json"), "expected JSON, found '{'", id="broken JSON"),
        pytest.param(replying(200, "[" * 100_000, "application/json"), "expected JSON, found '[", id="deep JSON"),
        pytest.param(
            replying(200, '{"ok": true}', "application/json"),
            "expected an MCP server, found JSON that is no JSON-RPC 2.0",
            id="another API",
        ),
        pytest.param(
            replying(200, ": hello\n\n", "text/event-stream"),
            "ends its answer to initialize before it gives one",
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
            f"speaks MCP 2099-01-01; expected one of 2026-07-28, {', '.join(VERSIONS)}",
            id="a later version",
        ),
        pytest.param(
            welcoming(Refused({"code": -32022, "message": "no", "data": {"supported": ["2030-01-01"]}})),
            f"speaks MCP 2030-01-01; expected one of 2026-07-28, {', '.join(VERSIONS)}",
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
        pytest.param(listing({"tools": ["a"]}), "answers tools/list without a list of tools", id="tools as text"),
        pytest.param(listing("x"), "answers tools/list without a result", id="a result as text"),
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
    assert found == said or (said.endswith("[") and found.startswith(said))


def test_a_line_without_end_is_too_large_too() -> None:
    assert (
        refusal(replying(200, "data: " + "x" * MAX_BYTES, "text/event-stream")) == "answers more than 8,388,608 bytes"
    )


def test_messages_without_an_answer_are_bounded() -> None:
    script = Script(events=True)
    script.before = [{"jsonrpc": "2.0", "method": "notifications/message"}] * 1001
    assert refusal(script) == "sends more than 1000 messages and no answer to initialize"


@each("events", [False, True])
@each("method", ["notifications/initialized", "tools/list"])
def test_a_server_that_lost_the_session_is_not_asked_by_the_other_transport(method: str, events: bool) -> None:
    def answer(handler: Handler) -> None:
        request = script.seen[-1][3]
        if request["method"] == method:
            handler.say(404)
        elif events:
            handler.say(200, event(script.answer_to(request)) if "id" in request else "", "text/event-stream")
        else:
            handler.say(200, json.dumps(script.answer_to(request)) if "id" in request else "")

    script = Script()
    script.answers["POST /mcp"] = answer
    assert refusal(script) == f"answers 404 Not Found to {method}"
    assert script.methods[-1] == method


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
        "/ü",
        "/a b",
    ],
)
def test_the_older_transport_posts_to_its_own_server_alone(endpoint: str) -> None:
    script = sse_script()
    with scripted(script) as base:
        script.endpoint = endpoint.replace("PORT", base.rpartition(":")[2])
        with pytest.raises(SuiteError) as raised:
            ask(base + "/sse")
    said = str(raised.value).removeprefix(f"{base}/sse: ")
    assert said.startswith("its event 'endpoint' names ")
    assert said.endswith(", which is not at the same server")
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
    assert refusal(script) == "expected an MCP server, whose first event is 'endpoint'; found 'message'"


def test_a_server_that_says_nothing_more_is_left_when_the_time_is_over() -> None:
    """As would be one that says a byte now and then: the time is that of all answers, not of one read."""
    script = sse_script()
    script.results = {}
    script.answer_to = lambda request: {"jsonrpc": "2.0", "method": "notifications/progress"}  # type: ignore[method-assign]
    with scripted(script) as base, ServerHttp(checked_address(base + "/sse", HERE), {}, most_s=0.3) as http:
        older = Sse(http)
        with pytest.raises(SuiteError, match=r"/sse: has not told all its tools within 0\.3 s"):
            list(older.exchange({"jsonrpc": "2.0", "id": 1, "method": "initialize"}))
        older.close()


def test_a_handshake_of_tls_that_does_not_go_on_is_left_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = checked_address(f"https://127.0.0.1:{silent.getsockname()[1]}/mcp", HERE)
        with ServerHttp(server, {}, most_s=0.3) as http, pytest.raises(SuiteError, match=r"within 0\.3 s"):
            http.ask("GET", "/mcp", {})


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
    assert refusal(script) == "cannot be reached: SSH-2.0-x"
