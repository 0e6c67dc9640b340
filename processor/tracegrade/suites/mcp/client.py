"""Asks an MCP server for its tools by the MCP SDK: at an address, by streamable HTTP, then by the older SSE."""

import asyncio
import json
import logging
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracegrade.display import printable
from tracegrade.suites.headers import SentHeaders
from tracegrade.suites.imported import JsonObject, SuiteError
from tracegrade.suites.mcp.address import ServerAddress

if TYPE_CHECKING:
    from tracegrade.suites.mcp.transport import CheckedTransport

STDIO = "stdio:"
MAX_TOOLS = 1000
MAX_PAGES = 100
ANSWER_S = 15.0
MOST_S = 60.0

_SHOWN = 200  # characters of what a server says


@dataclass(frozen=True, slots=True)
class Listed:
    """What a server says of itself: its tools, each with name, description and inputSchema; and its name, or ""."""

    tools: list[JsonObject]
    name: str = ""


class _Wrong(Exception):
    """What is wrong with what a server said, such as "has no tools"."""


def list_tools_at(
    server: ServerAddress, headers: Mapping[str, str], *, answer_s: float = ANSWER_S, most_s: float = MOST_S
) -> Listed:
    """The tools of the MCP server at `server`.

    Args:
        server: where it is.
        headers: sent with every request.
        answer_s: the longest wait for an answer.
        most_s: the longest time for all.

    Raises:
        SuiteError: the extra is not installed, or the server is no MCP server, refuses, or goes beyond a bound; never
            shows a header's value.
    """
    _require_sdk(server.url)
    from tracegrade.suites.mcp.transport import CheckedTransport

    async def listed() -> Listed:
        transport = None
        try:
            async with asyncio.timeout(most_s) as deadline:
                transport = CheckedTransport(server, headers, deadline, answer_s)
                return await _listed_over_http(transport, answer_s)
        except Exception as error:
            assert transport is not None
            raise transport.refused or transport.refusal(_failure_text(error, answer_s, most_s)) from None

    found = asyncio.run(listed())
    sent = SentHeaders(headers)
    tools = [{name: sent.masked(value) for name, value in tool.items()} for tool in found.tools]
    return Listed(tools, sent.masked_in(found.name))


def list_tools_of(server: str) -> Listed:
    """The tools of the program that `server`, ``stdio:COMMAND``, names.

    Raises:
        SuiteError: the extra is not installed, or the program is no MCP server.
    """
    command, *arguments = _command(server)
    _require_sdk(server)
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def listed() -> Listed:
        async with asyncio.timeout(MOST_S):
            program = StdioServerParameters(command=command, args=arguments)
            # Its own default is whatever standard error was when the SDK was imported.
            return await _listed(stdio_client(program, errlog=sys.__stderr__ or sys.stderr), ANSWER_S)

    try:
        return asyncio.run(listed())
    except Exception as error:  # whatever the SDK raises
        raise SuiteError(f"{server}: {printable(_failure_text(error, ANSWER_S, MOST_S))}") from None


def program_name(server: str) -> str:
    """The program of ``stdio:COMMAND`` alone, since arguments may be secret."""
    return Path(_command(server)[0]).name


def _require_sdk(server: str) -> None:
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError:
        raise SuiteError(f"{server}: asking an MCP server needs an extra: pip install 'tracegrade[mcp]'") from None
    for talkative in ("mcp", "client", "httpx2"):  # they log what they raise, what servers say, and whole addresses
        logging.getLogger(talkative).setLevel(logging.CRITICAL)


async def _listed_over_http(transport: "CheckedTransport", answer_s: float) -> Listed:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError

    async with transport.client() as http:
        try:
            # The transport counts the bytes of all events.
            return await _listed(
                streamable_http_client(transport.url, http_client=http, max_sse_event_size=None), answer_s
            )
        except Exception as error:
            if transport.is_spoken or not isinstance(_first(error), MCPError):
                raise
        return await _listed(_older(transport, answer_s), answer_s, mode="legacy")


@asynccontextmanager
async def _older(transport: "CheckedTransport", answer_s: float) -> AsyncIterator[Any]:
    """The transport by SSE, whose stream of events begins with an address to post to."""
    from mcp.client.sse import sse_client

    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(answer_s):  # the SDK waits on where the first event is none of an address
                client = sse_client(transport.url, httpx_client_factory=transport.client, sse_read_timeout=answer_s)
                opened = await stack.enter_async_context(client)
        except TimeoutError:
            what = "its stream of events does not begin with the event 'endpoint' and an address at the same server"
            raise transport.refuse(f"expected an MCP server; {what}") from None
        except Exception:
            posted, got = (transport.answers.get(method, "nothing") for method in ("POST", "GET"))
            what = f"found one that answers POST by {posted}, and GET by {got} without a stream of events"
            raise transport.refuse(f"expected an MCP server, {what}") from None
        yield opened


async def _listed(server: Any, answer_s: float, *, mode: str = "auto") -> Listed:
    """The tools of `server`, whatever of the SDK's it is."""
    from mcp import Client
    from mcp.shared.exceptions import MCPError
    from mcp_types import METHOD_NOT_FOUND, Implementation

    own = Implementation(name="tracegrade", version=version("tracegrade"))
    async with Client(server, mode=mode, read_timeout_seconds=answer_s, client_info=own, cache=None) as client:
        found: list[JsonObject] = []
        cursor = None
        for _ in range(MAX_PAGES):
            try:
                page = await client.list_tools(cursor=cursor)
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    raise _Wrong("has no tools: it does not know tools/list") from None
                raise
            found += [_tool(tool) for tool in page.tools]
            if len(found) > MAX_TOOLS:
                raise _Wrong(f"lists more than {MAX_TOOLS} tools")
            cursor = page.next_cursor
            if not cursor:
                break
        else:
            raise _Wrong(f"lists its tools on more than {MAX_PAGES} pages")
        if not found:
            raise _Wrong("has no tools: its list is empty")
        return Listed(found, _name(client.server_info))


def _tool(tool: Any) -> JsonObject:
    described: JsonObject = {} if tool.description is None else {"description": tool.description}
    return {"name": tool.name, **described, "inputSchema": tool.input_schema}


def _name(server: Any) -> str:
    """How a server calls itself, for people if it says."""
    names = [] if server is None else [server.title, server.name]
    return next((name.strip()[:_SHOWN] for name in names if name and name.strip()), "")


def _failure_text(error: Exception, answer_s: float, most_s: float) -> str:
    """What a server does that ended the conversation."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT, UNSUPPORTED_PROTOCOL_VERSION
    from pydantic import ValidationError

    first = _first(error)
    text = str(first).partition("\n")[0][:_SHOWN]
    if isinstance(first, TimeoutError):
        return f"did not list all its tools within {most_s:g} s"
    if isinstance(first, _Wrong):
        return text
    if isinstance(first, ValidationError):
        wrong = first.errors()[0]
        text = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"[:_SHOWN]
    elif isinstance(first, MCPError):
        if first.code == REQUEST_TIMEOUT:
            return f"no answer within {answer_s:g} s"
        if first.code == UNSUPPORTED_PROTOCOL_VERSION:
            text = f"it speaks other versions of MCP: {json.dumps(first.error.data)[:_SHOWN]}"
        elif first.code not in (CONNECTION_CLOSED, PARSE_ERROR):  # those are the SDK's own
            return f"answers with error {first.code}: {text}"
    return f"expected an MCP server: {text or type(first).__name__}"


def _first(error: BaseException) -> BaseException:
    """The first that went wrong: the SDK's tasks raise it in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _command(server: str) -> list[str]:
    try:
        command = shlex.split(server.removeprefix(STDIO))
    except ValueError as error:
        raise SuiteError(f"{server}: expected a command after {STDIO}: {error}") from None
    if not command:
        raise SuiteError(f"{server}: expected a command after {STDIO}, found nothing")
    return command
