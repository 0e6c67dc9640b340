"""The tools of an MCP server as a rule: are arguments valid by the schemas that the server gives?

The client is that of the MCP SDK, which the extra tracegrade[mcp] installs. At an address streamable HTTP is tried
first, then SSE, the older transport; a server that is a program is started, and answers over its standard output.
"""

import asyncio
import shlex
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tracegrade.evaluate.criteria.json_schema import JsonSchema, JsonSchemaError
from tracegrade.suites.imported import Imported, JsonObject, SuiteError, head, rule_id_of

STDIO = "stdio:"
_HEADERS = {"User-Agent": f"tracegrade/{version('tracegrade')}"}
_CONNECT_S = 5.0
_ANSWER_S = 15.0
_MOST_S = 60.0  # for all pages together
_MAX_PAGES = 100


def is_server(source: str) -> bool:
    """Whether `source` names an MCP server: an http(s) address, or ``stdio:`` and a command."""
    return source.startswith(("http://", "https://", STDIO))


def list_tools(server: str) -> list[JsonObject]:
    """The tools of `server` (as `is_server` says it): name, description and inputSchema of each.

    Raises:
        SuiteError: the extra is not installed, or no MCP server answers.
    """
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError:
        raise SuiteError(f"{server}: asking an MCP server needs an extra: pip install 'tracegrade[mcp]'") from None
    return asyncio.run(_list_tools(server))


async def _list_tools(server: str) -> list[JsonObject]:
    import httpx2

    failures = []
    async with httpx2.AsyncClient(headers=_HEADERS, timeout=httpx2.Timeout(_ANSWER_S, connect=_CONNECT_S)) as http:
        for name, transport in _transports(server, http):
            try:
                return await asyncio.wait_for(_tools_by(transport), _MOST_S)
            except Exception as error:  # whatever it is: the next transport may do
                failures.append(f"{name}: {_cause(error)}")
    raise SuiteError(f"{server}: expected an MCP server, none answers ({'; '.join(failures)})")


def _transports(server: str, http: Any) -> Iterator[tuple[str, Any]]:
    """The ways to speak to `server`, the likeliest first."""
    from mcp import StdioServerParameters
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    if server.startswith(STDIO):
        command, *arguments = _command(server)
        yield "stdio", StdioServerParameters(command=command, args=arguments)
        return
    yield "streamable HTTP", streamable_http_client(server, http_client=http)
    yield "SSE", sse_client(server, headers=_HEADERS, timeout=_CONNECT_S, sse_read_timeout=_ANSWER_S)


async def _tools_by(transport: Any) -> list[JsonObject]:
    from mcp import Client

    found: list[JsonObject] = []
    async with Client(transport, read_timeout_seconds=_ANSWER_S) as client:
        cursor = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += [
                {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if not cursor:
                break
    return found


def _command(server: str) -> list[str]:
    try:
        command = shlex.split(server.removeprefix(STDIO))
    except ValueError as error:
        raise SuiteError(f"{server}: expected a command after {STDIO}: {error}") from None
    if not command:
        raise SuiteError(f"{server}: expected a command after {STDIO}, found nothing")
    return command


def _cause(error: BaseException) -> str:
    """The first that went wrong: the SDK's tasks raise it in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).partition("\n")[0] or type(error).__name__


def import_tools(tools: list[JsonObject], server: str, rule_id: str = "") -> Imported:
    """A rule that judges the arguments of `tools`, which `server` listed.

    Raises:
        SuiteError: none of them has a schema.
    """
    schemas: JsonObject = {}
    notes: list[str] = []
    for tool in tools:
        name, schema = tool.get("name"), tool.get("inputSchema")
        try:
            JsonSchema(schema)
        except JsonSchemaError as error:
            notes.append(f"tool {name!r} is left out: {error}")
            continue
        schemas[str(name)] = schema
    if not schemas:
        raise SuiteError(f"{server}: expected tools with an inputSchema, found none")
    # Of a command only the program: arguments may be secret.
    address = urlsplit(server) if not server.startswith(STDIO) else None
    name = Path(_command(server)[0]).name if address is None else address.netloc.rpartition("@")[2]
    title = f"Arguments are not valid by the schemas of {name}"
    rule = head(rule_id or rule_id_of(f"arguments invalid for {address.hostname if address else name}"), title, "")
    match: JsonObject = {"tools": [_glob(name) for name in schemas]}
    return Imported(
        rule | {"match": match, "evaluate": [{"evaluator": "args-schema", "from_trace": False, "schemas": schemas}]},
        {"name": title, "tools": [_function(tool) for tool in tools if tool.get("name") in schemas]},
        notes,
    )


def _glob(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _function(tool: JsonObject) -> JsonObject:
    described = {"description": tool["description"]} if tool.get("description") else {}
    return {"type": "function", "function": {"name": tool["name"], **described, "parameters": tool["inputSchema"]}}
