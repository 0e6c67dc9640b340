"""The tools of an MCP server, by each of its transports."""

import asyncio
import json
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
import uvicorn
from click.testing import CliRunner
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from build import each
from tracegrade.cli import main
from tracegrade.rule.load import load_rules
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.mcp.address import Allowed
from tracegrade.suites.mcp.client import Listed
from tracegrade.suites.mcp.tools import import_tools, list_tools, suite_of

HERE = Allowed(["127.0.0.1"])
ALLOWED = ["--allow-host", "127.0.0.1"]
TOOL = {"name": "a", "description": "x", "inputSchema": {"type": "object"}}
PROGRAM = f"stdio:{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).with_name('mcp_server.py')))}"


class Noting:
    """An app that notes who asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.user_agents: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.user_agents.add(dict(scope["headers"])[b"user-agent"])
        await self._app(scope, receive, send)


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize("transport", ["json", "events", "sse"])
def test_the_tools_of_all_pages_are_listed_over_http_by_who_says_who_asks(transport: str) -> None:
    mcp_server = pytest.importorskip("suites.mcp_server", reason="needs pip install -e '.[mcp]'")
    app = Noting(mcp_server.app(transport))
    with serving(app) as address:
        assert list_tools(address, HERE) == Listed(mcp_server.TOOLS, "weather")
    assert app.user_agents == {f"tracegrade/{version('tracegrade')}".encode()}


class WithoutHandshake:
    """An app as it would be if it knew no handshake any more."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = JSONResponse({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "?"}}, 404)
        is_modern = scope["type"] != "http" or dict(scope["headers"]).get(b"mcp-protocol-version") == b"2026-07-28"
        await (self._app if is_modern else refusal)(scope, receive, send)


def test_the_tools_of_a_server_without_a_handshake_are_listed() -> None:
    mcp_server = pytest.importorskip("suites.mcp_server", reason="needs pip install -e '.[mcp]'")
    with serving(WithoutHandshake(mcp_server.app("json"))) as address:
        assert list_tools(address, HERE).tools == mcp_server.TOOLS


def test_the_tools_of_a_program_are_listed() -> None:
    mcp_server = pytest.importorskip("suites.mcp_server", reason="needs pip install -e '.[mcp]'")
    assert list_tools(PROGRAM, HERE) == Listed(mcp_server.TOOLS, "weather")


def test_the_tools_become_a_rule_and_a_suite(tmp_path: Path) -> None:
    mcp_server = pytest.importorskip("suites.mcp_server", reason="needs pip install -e '.[mcp]'")
    with serving(mcp_server.app("json")) as address:
        made = CliRunner().invoke(main, ["rules", "import", address, "--in", str(tmp_path), *ALLOWED])
    assert made.exit_code == 0, made.output
    (rule,) = load_rules([tmp_path]).rules
    assert (rule.id, rule.status) == ("arguments-invalid-for-127-0-0-1", "experimental")
    assert list(rule.evaluate[0].criteria.schemas) == ["tool_0", "tool_1", "tool_2"]
    kept = json.loads((tmp_path / "imported" / rule.id / "suite.json").read_text())
    function = {"name": "tool_0", "description": "x", "parameters": mcp_server.SCHEMA}
    assert kept["tools"][0]["function"] == function


@each(
    ("server", "why"),
    [
        ("stdio:no-such-program --x", "expected an MCP server: .*No such file"),
        ("stdio:true", "expected an MCP server: Connection closed"),
        ("stdio:", "expected a command after stdio:, found nothing"),
        ("stdio:'x", "expected a command after stdio:: No closing quotation"),
    ],
)
def test_what_is_no_program_of_mcp_is_said(server: str, why: str) -> None:
    pytest.importorskip("mcp", reason="needs pip install -e '.[mcp]'")
    with pytest.raises(SuiteError, match=why):
        list_tools(server, HERE)


@each("server", ["stdio:true", "http://127.0.0.1:9/mcp"])
def test_without_the_extra_it_is_named(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SuiteError, match=r"pip install 'tracegrade\[mcp\]'"):
        list_tools(server, HERE)


def test_a_rule_is_named_by_the_program_alone() -> None:
    imported = import_tools(Listed([TOOL]), "stdio:/usr/bin/weather --token secret")
    assert imported.rule["id"] == "arguments-invalid-for-weather"
    assert "secret" not in json.dumps([imported.rule, imported.kept])


def test_tools_without_a_schema_that_can_be_used_are_left_out_and_named() -> None:
    tools = [TOOL, {"name": "b", "inputSchema": {"$ref": "https://example.org/x"}}, {"name": "c"}]
    tools += [{"inputSchema": {}}, TOOL]
    imported = import_tools(Listed(tools), "http://h/x")
    assert imported.rule["match"] == {"tools": ["a"]}
    assert imported.notes[0].startswith("tool 'b' is left out: no JSON Schema: ")
    assert imported.notes[1:] == [
        "tool 'c' is left out: expected an inputSchema, which is an object",
        "tool None is left out: expected a name of 1 to 128 characters",
        "tool 'a' is left out where it is listed again",
    ]
    for make in (import_tools, suite_of):
        with pytest.raises(SuiteError, match="found none"):
            make(Listed(tools[1:4]), "http://h/x")


def test_tools_become_a_suite_to_write_cases_for() -> None:
    odd = TOOL | {"name": "ns.b", "description": 7, "inputSchema": {"required": ["x"], "properties": {"x": {}}}}
    made = suite_of(Listed([odd, TOOL], "Weather"), "https://h:99/x?token=hush")
    parameters = {"required": ["x"], "properties": {"x": {}}}
    assert made.suite == {
        "name": "Weather",
        "description": "The tools of the MCP server at h:99",
        "tools": [
            {"type": "function", "function": {"name": "ns.b", "parameters": parameters}},
            {"type": "function", "function": {"name": "a", "description": "x", "parameters": {"type": "object"}}},
        ],
        "test_cases": [],
    }
    assert made.example == {"prompt": "...", "expected_tool": "ns.b", "expected_params": {"x": "..."}}
    assert made.notes == ["tool 'ns.b': many models take only letters, digits, '_' and '-' in a name, at most 64"]
    assert suite_of(Listed([TOOL]), "http://h/").suite["name"] == "h"
    assert suite_of(Listed([TOOL], "Weather"), "http://h/", "Mine").suite["name"] == "Mine"
