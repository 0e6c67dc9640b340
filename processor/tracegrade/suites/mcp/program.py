"""An MCP server that is a program: started, and asked over its standard streams by the MCP SDK (tracegrade[mcp])."""

import asyncio
import shlex
from pathlib import Path

from tracegrade.suites.imported import JsonObject, SuiteError
from tracegrade.suites.mcp.client import MAX_PAGES, Listed
from tracegrade.suites.mcp.connection import ANSWER_S, MOST_S

STDIO = "stdio:"


def list_tools_of(server: str) -> Listed:
    """The tools of the program that `server`, ``stdio:COMMAND``, names.

    Raises:
        SuiteError: the extra is not installed, or the program is no MCP server.
    """
    command, *arguments = _command(server)
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError:
        raise SuiteError(f"{server}: asking a program needs an extra: pip install 'tracegrade[mcp]'") from None
    try:
        tools = asyncio.run(asyncio.wait_for(_list_tools(command, arguments), MOST_S))
    except Exception as error:  # whatever the SDK raises
        raise SuiteError(f"{server}: expected an MCP server, none answers ({_cause(error)})") from None
    return Listed(tools)


def program_name(server: str) -> str:
    """The program of ``stdio:COMMAND`` alone, since arguments may be secret."""
    return Path(_command(server)[0]).name


async def _list_tools(command: str, arguments: list[str]) -> list[JsonObject]:
    from mcp import Client, StdioServerParameters

    found: list[JsonObject] = []
    program = StdioServerParameters(command=command, args=arguments)
    async with Client(program, read_timeout_seconds=ANSWER_S) as client:
        cursor = None
        for _ in range(MAX_PAGES):
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
