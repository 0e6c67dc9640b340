"""An MCP server made with the SDK, two tools a page: over HTTP by `app`; as a program, over its standard streams."""

import asyncio
from typing import Any

from mcp import ListToolsResult, Tool
from mcp.server import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

# The default null is part of what a tool says of itself.
SCHEMA = {"type": "object", "properties": {"city": {"type": ["string", "null"], "default": None}}, "required": ["city"]}
TOOLS: list[dict[str, Any]] = [{"name": f"tool_{n}", "description": "x", "inputSchema": SCHEMA} for n in range(3)]


async def _list_tools(context: Any, parameters: Any) -> ListToolsResult:
    start = int((parameters and parameters.cursor) or 0)
    shown = [Tool.model_validate(tool) for tool in TOOLS[start : start + 2]]
    return ListToolsResult(tools=shown, next_cursor="2" if start == 0 else None)


def server() -> Server[Any]:
    return Server("weather", on_list_tools=_list_tools)


class _Sse:
    """The older transport: a stream of events, and an address to post to."""

    def __init__(self, posts: SseServerTransport) -> None:
        self._posts = posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._posts.connect_sse(scope, receive, send) as (read, write):
            made = server()
            await made.run(read, write, made.create_initialization_options())


def app(transport: str) -> ASGIApp:
    if transport == "sse":
        posts = SseServerTransport("/messages/")
        return Starlette(
            routes=[Route("/mcp", _Sse(posts), methods=["GET"]), Mount("/messages/", posts.handle_post_message)]
        )
    return server().streamable_http_app(json_response=transport == "json")


async def _main() -> None:
    async with stdio_server() as (read, write):
        made = server()
        await made.run(read, write, made.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_main())
