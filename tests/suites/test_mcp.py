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
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tracegrade.cli import main
from tracegrade.rule.load import load_rules
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.mcp import import_tools, list_tools

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
        assert list_tools(address) == mcp_server.TOOLS
    assert app.user_agents == {f"tracegrade/{version('tracegrade')}".encode()}


def test_the_tools_of_a_program_are_listed() -> None:
    mcp_server = pytest.importorskip("suites.mcp_server", reason="needs pip install -e '.[mcp]'")
    assert list_tools(PROGRAM) == mcp_server.TOOLS


def test_the_tools_become_a_rule_and_a_suite(tmp_path: Path) -> None:
    mcp_server = pytest.importorskip("suites.mcp_server", reason="needs pip install -e '.[mcp]'")
    with serving(mcp_server.app("json")) as address:
        made = CliRunner().invoke(main, ["rules", "import", address, "--in", str(tmp_path)])
    assert made.exit_code == 0, made.output
    (rule,) = load_rules([tmp_path]).rules
    assert (rule.id, rule.status) == ("arguments-invalid-for-127-0-0-1", "experimental")
    assert list(rule.evaluate[0].criteria.schemas) == ["tool_0", "tool_1", "tool_2"]
    kept = json.loads((tmp_path / "imported" / rule.id / "suite.json").read_text())
    function = {"name": "tool_0", "description": "x", "parameters": mcp_server.SCHEMA}
    assert kept["tools"][0]["function"] == function


def test_what_each_transport_met_is_said() -> None:
    pytest.importorskip("mcp", reason="needs pip install -e '.[mcp]'")
    with serving(PlainTextResponse("go away", 403)) as address, pytest.raises(SuiteError) as raised:
        list_tools(address)
    said = str(raised.value)
    assert said.startswith(f"{address}: expected an MCP server, none answers (streamable HTTP: ")
    assert "; SSE: Client error '403 Forbidden'" in said


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("http://127.0.0.1:9/mcp", "streamable HTTP: All connection attempts failed; SSE: All connection"),
        ("stdio:no-such-program --x", "stdio: .*No such file"),
        ("stdio:true", "stdio: Connection closed"),
        ("stdio:", "expected a command after stdio:, found nothing"),
        ("stdio:'x", "expected a command after stdio:: No closing quotation"),
    ],
)
def test_nobody_there_is_said(server: str, why: str) -> None:
    pytest.importorskip("mcp", reason="needs pip install -e '.[mcp]'")
    with pytest.raises(SuiteError, match=why):
        list_tools(server)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SuiteError, match=r"pip install 'tracegrade\[mcp\]'"):
        list_tools("http://127.0.0.1:9/mcp")


def test_a_rule_is_named_by_the_program_alone() -> None:
    imported = import_tools([TOOL], "stdio:/usr/bin/weather --token secret")
    assert imported.rule["id"] == "arguments-invalid-for-weather"
    assert "secret" not in json.dumps([imported.rule, imported.kept])


def test_tools_without_a_schema_that_can_be_used_are_left_out_and_named() -> None:
    tools = [TOOL, {"name": "b", "inputSchema": {"$ref": "https://example.org/x"}}, {"name": "c"}]
    imported = import_tools(tools, "http://h/x")
    assert imported.rule["match"] == {"tools": ["a"]}
    assert [note.partition(":")[0] for note in imported.notes] == ["tool 'b' is left out", "tool 'c' is left out"]
    with pytest.raises(SuiteError, match="found none"):
        import_tools(tools[1:], "http://h/x")
