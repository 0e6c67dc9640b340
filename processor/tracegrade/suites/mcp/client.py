"""What is said to an MCP server to learn of its tools: a handshake where it wants one, then its lists, page by page.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle and .../server/tools; since 2026-07-28
there is no handshake, and each request says its version itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import JsonObject, SuiteError
from tracegrade.suites.mcp.address import ServerAddress
from tracegrade.suites.mcp.connection import ServerHttp
from tracegrade.suites.mcp.transports import OtherTransport, Sse, StreamableHttp, Transport

MAX_TOOLS = 1000
MAX_PAGES = 100
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, those with a handshake, the newest first."""
WITHOUT_HANDSHAKE = "2026-07-28"

_NO_SUCH_METHOD = -32601
_UNSUPPORTED_VERSION = -32022
_MOST_MESSAGES = 1000  # of one answer: logs and progress may come before it
_META = "io.modelcontextprotocol/"
_CLIENT: JsonObject = {"name": "tracegrade", "version": version("tracegrade")}


@dataclass(frozen=True, slots=True)
class Listed:
    """What a server says of itself: its tools as it wrote them, and its name, "" if it has none."""

    tools: list[JsonObject]
    name: str = ""


class _Refused(Exception):
    """The server answered a request by an error of JSON-RPC."""

    def __init__(self, error: JsonValue) -> None:
        super().__init__()
        described = error if isinstance(error, dict) else {}
        self.code = described.get("code")
        self.message = str(described.get("message", ""))[:200]
        found = described.get("data")
        supported = found.get("supported") if isinstance(found, dict) else None
        self.supported = supported if isinstance(supported, list) else []


def list_tools_at(server: ServerAddress, headers: Mapping[str, str]) -> Listed:
    """The tools of the MCP server at `server`.

    Args:
        server: where it is.
        headers: sent with every request.

    Raises:
        SuiteError: it is no MCP server, refuses, or goes beyond a bound; never shows a header's value.
    """
    with ServerHttp(server, headers) as http:
        streamable = StreamableHttp(http)
        try:
            return _Conversation(http, streamable).listed()
        except OtherTransport as posted:
            try:
                older = Sse(http)
            except OtherTransport as got:
                raise http.refusal(
                    f"expected an MCP server, found one that answers POST by {posted.status}, and GET by "
                    f"{got.status} without a stream of events"
                ) from None
        try:
            return _Conversation(http, older).listed()
        finally:
            older.close()


class _Conversation:
    """Requests and their answers, over one transport."""

    def __init__(self, http: ServerHttp, transport: Transport) -> None:
        self._http = http
        self._transport = transport
        self._number = 0
        self._meta: JsonObject = {}

    def listed(self) -> Listed:
        """Everything that is asked of the server."""
        try:
            name = self._greet()
            tools = self._tools()
        except _Refused as refused:
            if refused.code == _NO_SUCH_METHOD:
                raise self._http.refusal("has no tools: it does not know tools/list") from None
            raise self._http.refusal(f"answers with error {refused.code}: {refused.message}") from None
        self._transport.close()
        if not tools:
            raise self._http.refusal("has no tools: its list is empty")
        return Listed(tools, name)

    def _greet(self) -> str:
        """Agree on a version of the protocol. Returns the server's name."""
        try:
            result = self._initialized(VERSIONS[0])
        except _Refused as refused:
            known = [one for one in VERSIONS[1:] if one in refused.supported]
            if known:
                result = self._initialized(known[0])
            elif WITHOUT_HANDSHAKE in refused.supported or refused.code == _NO_SUCH_METHOD:
                return self._go_without()
            elif refused.supported or refused.code == _UNSUPPORTED_VERSION:
                raise self._other_version(", ".join(map(str, refused.supported))) from None
            else:
                raise
        agreed = result.get("protocolVersion")
        if agreed not in VERSIONS:
            raise self._other_version(str(agreed))
        self._transport.speak({"MCP-Protocol-Version": str(agreed)})
        self._transport.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return _name(result.get("serverInfo"))

    def _initialized(self, offered: str) -> JsonObject:
        return self._ask("initialize", {"protocolVersion": offered, "capabilities": {}, "clientInfo": _CLIENT})

    def _go_without(self) -> str:
        self._meta = {
            f"{_META}protocolVersion": WITHOUT_HANDSHAKE,
            f"{_META}clientInfo": _CLIENT,
            f"{_META}clientCapabilities": {},
        }
        self._transport.speak({"MCP-Protocol-Version": WITHOUT_HANDSHAKE, "Mcp-Method": "tools/list"})
        return ""

    def _other_version(self, found: str) -> SuiteError:
        expected = ", ".join([WITHOUT_HANDSHAKE, *VERSIONS])
        return self._http.refusal(f"speaks MCP {found[:100] or 'of an unknown version'}; expected one of {expected}")

    def _tools(self) -> list[JsonObject]:
        found: list[JsonObject] = []
        cursor: JsonValue = None
        for _ in range(MAX_PAGES):
            page = self._ask("tools/list", {} if cursor is None else {"cursor": cursor})
            tools = page.get("tools")
            if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
                raise self._http.refusal("answers tools/list without a list of tools")
            found += [tool for tool in tools if isinstance(tool, dict)]
            if len(found) > MAX_TOOLS:
                raise self._http.refusal(f"lists more than {MAX_TOOLS} tools")
            cursor = page.get("nextCursor")
            if not cursor:
                return found
        raise self._http.refusal(f"lists its tools on more than {MAX_PAGES} pages")

    def _ask(self, method: str, parameters: JsonObject) -> JsonObject:
        """The result of a request; what the server says and asks before it gives that is answered as far as it must."""
        self._number += 1
        request: JsonObject = {"jsonrpc": "2.0", "id": self._number, "method": method}
        if self._meta:
            parameters = {**parameters, "_meta": self._meta}
        if parameters:
            request["params"] = parameters
        for number, message in enumerate(self._transport.exchange(request)):
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
                raise self._http.refusal("expected an MCP server, found JSON that is no JSON-RPC 2.0")
            if number == _MOST_MESSAGES:
                raise self._http.refusal(f"sends more than {_MOST_MESSAGES} messages and no answer to {method}")
            if "method" in message:
                self._reply(message)
            elif message.get("id") in (self._number, None):  # none where the server could not read the request
                return self._result(message, method)
        raise self._http.refusal(f"ends its answer to {method} before it gives one")

    def _result(self, message: JsonObject, method: str) -> JsonObject:
        if "error" in message:
            raise _Refused(message["error"])
        result = message.get("result")
        if not isinstance(result, dict):
            raise self._http.refusal(f"answers {method} without a result")
        return result

    def _reply(self, message: JsonObject) -> None:
        """Answer a server's own request: a ping, else that we do not know of it. Notifications are not answered."""
        if message.get("id") is None:
            return
        answer: JsonObject = {"jsonrpc": "2.0", "id": message["id"]}
        if message.get("method") == "ping":
            self._transport.send(answer | {"result": {}})
        else:
            refusal: JsonObject = {"code": _NO_SUCH_METHOD, "message": "Method not found"}
            self._transport.send(answer | {"error": refusal})


def _name(server: JsonValue) -> str:
    """How a server calls itself, for people if it says."""
    described = server if isinstance(server, dict) else {}
    names = [described.get("title"), described.get("name")]
    return next((name.strip()[:200] for name in names if isinstance(name, str) and name.strip()), "")
