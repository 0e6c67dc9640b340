"""The tools of an MCP server as a rule: are arguments valid by the schemas that the server tells?

Streamable HTTP is tried first, then the older transport, in which answers come over a stream of events.

Source: modelcontextprotocol specification 2025-06-18, basic/transports (and its backwards compatibility), lifecycle and
server/tools.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib.metadata import version
from types import TracebackType
from typing import Self
from urllib.parse import urljoin, urlsplit

import urllib3

from tracegrade.evaluate.json_schema import JsonSchema, JsonSchemaError
from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import Imported, JsonObject, SuiteError, head, rule_id_of

_VERSION = "2025-06-18"
_USER_AGENT = f"tracegrade/{version('tracegrade')}"
_TIMEOUT = urllib3.Timeout(connect=5.0, read=15.0)
_MAX_BYTES = 16 * 1024 * 1024
_MAX_PAGES = 100
_BOTH = "application/json, text/event-stream"
_EVENTS = "text/event-stream"


def list_tools(url: str) -> list[JsonObject]:
    """The tools of the server at `url`, each as it describes it.

    Raises:
        SuiteError: nobody answers there, or not as an MCP server does.
    """
    pool = urllib3.PoolManager(timeout=_TIMEOUT, retries=False)
    try:
        with _Streamable(pool, url) as server:
            if server.speaks():
                return _tools(server)
        with _EventStream(pool, url) as older:
            if older.speaks():
                return _tools(older)
    except urllib3.exceptions.HTTPError as error:
        raise SuiteError(f"{url}: no MCP server answers: {error}") from None
    finally:
        pool.clear()
    raise SuiteError(f"{url}: expected an MCP server (streamable HTTP or SSE), found neither")


def import_tools(tools: list[JsonObject], url: str, rule_id: str = "") -> Imported:
    """A rule that judges the arguments of `tools`, which the server at `url` told.

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
        raise SuiteError(f"{url}: expected tools with an inputSchema, found none")
    named = f"Arguments are not valid by the schemas of {urlsplit(url).netloc}"
    rule = head(rule_id or rule_id_of(f"arguments invalid for {urlsplit(url).hostname}"), named, "")
    match: JsonObject = {"tools": [_glob(name) for name in schemas]}
    return Imported(
        rule | {"match": match, "evaluate": [{"evaluator": "args-schema", "from_trace": False, "schemas": schemas}]},
        {"name": named, "tools": [_function(tool) for tool in tools if tool.get("name") in schemas]},
        notes,
    )


def _glob(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _function(tool: JsonObject) -> JsonObject:
    described = {"description": tool["description"]} if tool.get("description") else {}
    return {"type": "function", "function": {"name": tool["name"], **described, "parameters": tool["inputSchema"]}}


class _Server(ABC):
    """A conversation with one server."""

    def __init__(self, pool: urllib3.PoolManager, url: str) -> None:
        self._pool = pool
        self._url = url
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what is open."""
        self._pool.clear()

    @abstractmethod
    def speaks(self) -> bool:
        """Whether a server of this kind answers; then it is initialised."""

    @abstractmethod
    def exchange(self, message: JsonObject) -> JsonValue:
        """Send one message; the answer, None for one that wants none."""

    def request(self, method: str, parameters: JsonObject) -> JsonObject:
        """The result of a request.

        Raises:
            SuiteError: the server answers with an error.
        """
        self._last_id += 1
        message: JsonObject = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": parameters}
        answer = self.exchange(message)
        result = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(result, dict):
            found = answer.get("error") if isinstance(answer, dict) else answer
            raise SuiteError(f"{self._url}: {method}: expected a result, found {json.dumps(found)[:200]}")
        return result

    def initialise(self) -> None:
        """The handshake."""
        client: JsonObject = {"name": "tracegrade", "version": "1"}
        self.request("initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client})
        self.exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, url: str, message: JsonObject, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        """One message over HTTP; the body is still to be read."""
        return self._pool.request(
            "POST",
            url,
            body=json.dumps(message).encode(),
            headers={"User-Agent": _USER_AGENT, "Content-Type": "application/json", "Accept": _BOTH, **headers},
            preload_content=False,
            redirect=False,
        )


class _Streamable(_Server):
    """Streamable HTTP: each message is a POST, which is answered by JSON or by events."""

    def __init__(self, pool: urllib3.PoolManager, url: str) -> None:
        super().__init__(pool, url)
        self._headers: dict[str, str] = {}
        self._status = 0

    def speaks(self) -> bool:
        try:
            self.initialise()
        except SuiteError:
            if 400 <= self._status < 500:  # what the specification has an older server answer
                return False
            raise
        return True

    def exchange(self, message: JsonObject) -> JsonValue:
        response = self.post(self._url, message, self._headers)
        try:
            self._status = response.status
            if session := response.headers.get("Mcp-Session-Id"):
                self._headers["Mcp-Session-Id"] = session
            if "id" not in message:
                return None
            if response.status != 200:
                raise SuiteError(f"{self._url}: expected status 200, found {response.status}")
            if response.headers.get("Content-Type", "").startswith(_EVENTS):
                return _answer_to(message["id"], _events(response))
            return _parsed(_body(response))
        finally:
            response.close()


class _EventStream(_Server):
    """The older transport: a GET opens the stream of answers, and its first event says where to post."""

    def __init__(self, pool: urllib3.PoolManager, url: str) -> None:
        super().__init__(pool, url)
        self._endpoint = ""
        self._stream: urllib3.BaseHTTPResponse | None = None
        self._events: Iterator[tuple[str, str]] = iter(())

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        super().close()

    def speaks(self) -> bool:
        self._stream = self._pool.request(
            "GET",
            self._url,
            headers={"User-Agent": _USER_AGENT, "Accept": _EVENTS},
            preload_content=False,
            redirect=False,
        )
        is_stream = self._stream.headers.get("Content-Type", "").startswith(_EVENTS)
        if self._stream.status != 200 or not is_stream:
            return False
        self._events = _events(self._stream)
        self._endpoint = next((urljoin(self._url, data) for name, data in self._events if name == "endpoint"), "")
        if urlsplit(self._endpoint)[:2] != urlsplit(self._url)[:2]:
            raise SuiteError(f"{self._url}: expected an endpoint of the same server, found {self._endpoint!r}")
        self.initialise()
        return True

    def exchange(self, message: JsonObject) -> JsonValue:
        response = self.post(self._endpoint, message, {})
        response.close()
        if response.status >= 400:
            raise SuiteError(f"{self._endpoint}: expected status 202, found {response.status}")
        return _answer_to(message["id"], self._events) if "id" in message else None


def _tools(server: _Server) -> list[JsonObject]:
    found: list[JsonObject] = []
    cursor: JsonValue = None
    for _ in range(_MAX_PAGES):
        page = server.request("tools/list", {"cursor": cursor} if cursor else {})
        tools = page.get("tools")
        found += [tool for tool in (tools if isinstance(tools, list) else []) if isinstance(tool, dict)]
        cursor = page.get("nextCursor")
        if not cursor:
            break
    return found


def _answer_to(request_id: JsonValue, events: Iterator[tuple[str, str]]) -> JsonValue:
    """The answer to one request among the events; others are notifications and requests to us."""
    for _, data in events:
        message = _parsed(data.encode())
        if isinstance(message, dict) and message.get("id") == request_id and "method" not in message:
            return message
    raise SuiteError("the stream of events ended before the answer came")


def _events(response: urllib3.BaseHTTPResponse) -> Iterator[tuple[str, str]]:
    """The events of a stream: name and data."""
    name, data = "message", list[str]()
    for line in _lines(response):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = "message", []
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[str]:
    """The lines as they come."""
    rest, read = b"", 0
    while chunk := response.read1(65536):
        read += len(chunk)
        if read > _MAX_BYTES:
            raise SuiteError(f"more than {_MAX_BYTES} bytes came; expected a list of tools")
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


def _body(response: urllib3.BaseHTTPResponse) -> bytes:
    body = response.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise SuiteError(f"more than {_MAX_BYTES} bytes came; expected a list of tools")
    return body


def _parsed(body: bytes) -> JsonValue:
    try:
        value: JsonValue = json.loads(body)
    except ValueError:
        raise SuiteError(f"expected JSON from the server, found {body[:80]!r}") from None
    return value
