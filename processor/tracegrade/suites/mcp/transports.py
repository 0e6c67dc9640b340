"""The two ways to speak with an MCP server by HTTP: streamable HTTP, and the older one over server-sent events.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports,
https://modelcontextprotocol.io/specification/2024-11-05/basic/transports (HTTP with SSE), and for the format of
events https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPResponse
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from tracegrade.display import without_secrets
from tracegrade.model.json_value import JsonValue
from tracegrade.suites.imported import JsonObject, SuiteError, read_document
from tracegrade.suites.mcp.address import PORTS
from tracegrade.suites.mcp.connection import ServerHttp

JSON = "application/json"
EVENTS = "text/event-stream"
_SHOWN = 200  # characters of what a server answers


class Transport(Protocol):
    """A way to speak."""

    def exchange(self, message: JsonObject) -> Iterator[JsonValue]:
        """Send a request; what the server says then, up to the end of that."""
        ...

    def send(self, message: JsonObject) -> None:
        """Send what is not answered."""
        ...

    def speak(self, headers: Mapping[str, str]) -> None:
        """Send `headers`, too, from now on."""
        ...

    def close(self) -> None:
        """Say that this is all."""
        ...


class OtherTransport(Exception):
    """The address takes no POST as streamable HTTP would; ``status`` is what it answers."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class StreamableHttp:
    """Every message is a POST to one address; it is answered by JSON, or by a stream of events."""

    def __init__(self, http: ServerHttp) -> None:
        """Send nothing yet."""
        self._http = http
        self._headers: dict[str, str] = {}
        self._session_id: str | None = None
        self._is_spoken = False

    def exchange(self, message: JsonObject) -> Iterator[JsonValue]:
        """As `Transport`; raises `OtherTransport` where the address is none of this transport."""
        response = self._post(message)
        kind = _kind(response)
        if response.status == HTTPStatus.OK and kind == EVENTS:
            self._is_spoken = True
            for _, text in _events(self._http.lines(response)):
                if text:  # one without is there to be come back to
                    yield _message(self._http, text)
            return
        text = self._http.read(response)
        if kind == JSON and (response.status == HTTPStatus.OK or _is_message(text)):
            self._is_spoken = True
            found = _message(self._http, text)
            yield from found if isinstance(found, list) else [found]
        elif response.status in (HTTPStatus.OK, HTTPStatus.ACCEPTED):
            said = kind or "an unnamed type" if text else "nothing"
            raise self._http.refusal(f"expected an MCP server, which answers by JSON or events; found {said}")
        elif self._is_spoken:
            raise self._http.refusal(f"answers {_status(response)} to {message.get('method')}")
        else:
            raise OtherTransport(response.status)

    def send(self, message: JsonObject) -> None:
        """As `Transport`; what is answered is not looked at beyond its status."""
        response = self._post(message)
        response.close()
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise self._http.refusal(f"answers {_status(response)} to {message.get('method', 'an answer')}")

    def speak(self, headers: Mapping[str, str]) -> None:
        """As `Transport`."""
        self._headers |= headers

    def close(self) -> None:
        """End the session, if the server began one; whether it lets us is its own matter."""
        if self._session_id is not None:
            with suppress(SuiteError):
                self._http.ask("DELETE", self._http.server.target, self._sent()).close()

    def _post(self, message: JsonObject) -> HTTPResponse:
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}", **self._sent()}
        response = self._http.ask("POST", self._http.server.target, headers, json.dumps(message).encode())
        _check_status(self._http, response)
        self._session_id = response.getheader("Mcp-Session-Id", self._session_id)
        return response

    def _sent(self) -> dict[str, str]:
        return self._headers if self._session_id is None else {**self._headers, "Mcp-Session-Id": self._session_id}


class Sse:
    """One stream of events, whose first says where to post messages."""

    def __init__(self, http: ServerHttp) -> None:
        """Open the stream.

        Raises:
            OtherTransport: the address gives no stream of events.
            SuiteError: its first event is no address at the same server.
        """
        self._http = http
        response = http.ask("GET", http.server.target, {"Accept": EVENTS})
        if response.status != HTTPStatus.OK or _kind(response) != EVENTS:
            _check_status(http, response)
            raise OtherTransport(response.status)
        self._response = response
        self._events = _events(http.lines(response))
        self._headers: dict[str, str] = {}
        self._target = self._endpoint()

    def exchange(self, message: JsonObject) -> Iterator[JsonValue]:
        """As `Transport`."""
        self.send(message)
        for name, text in self._events:
            if name == "message" and text:
                yield _message(self._http, text)

    def send(self, message: JsonObject) -> None:
        """As `Transport`."""
        headers = {"Content-Type": JSON, **self._headers}
        response = self._http.ask("POST", self._target, headers, json.dumps(message).encode())
        _check_status(self._http, response)
        response.close()
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise self._http.refusal(f"answers {_status(response)} to a message at the address of its own event")

    def speak(self, headers: Mapping[str, str]) -> None:
        """As `Transport`."""
        self._headers |= headers

    def close(self) -> None:
        """Leave the stream."""
        self._response.close()

    def _endpoint(self) -> str:
        """Path and query to post to; they must be of the server that was asked."""
        server = self._http.server
        name, text = next(self._events, ("end", ""))
        if name != "endpoint":
            raise self._http.refusal(f"expected an MCP server, whose first event is 'endpoint'; found {name!r}")
        try:
            there = urlsplit(urljoin(f"{server.scheme}://{server.authority}{server.target}", text))
            port = there.port or PORTS.get(there.scheme)
            is_own = (there.scheme, there.hostname, port) == (server.scheme, server.host, server.port)
        except ValueError:
            is_own = False
        if not is_own or "@" in there.netloc or not (text.isascii() and text.isprintable()) or " " in text:
            elsewhere = without_secrets(text)[:_SHOWN]
            raise self._http.refusal(f"its event 'endpoint' names {elsewhere!r}, which is not at the same server")
        return (there.path or "/") + (f"?{there.query}" if there.query else "")


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Name and text of each event; one that does not end with an empty line is none."""
    name, text = "message", list[str]()
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if text:
                yield name, "\n".join(text)
            name, text = "message", []
        elif field == "event":
            name = value or "message"
        elif field == "data":
            text.append(value)


def _message(http: ServerHttp, text: str) -> JsonValue:
    try:
        return read_document(http.without_secrets(text))
    except (SuiteError, RecursionError):
        raise http.refusal(f"expected JSON, found {text[:60]!r}") from None


def _is_message(text: str) -> bool:
    """Whether the body of an error is an answer of an MCP server."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "jsonrpc" in found


def _check_status(http: ServerHttp, response: HTTPResponse) -> None:
    """Raise for what no other transport would mend."""
    status = response.status
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        advice = (
            "the key that was sent is not accepted"
            if http.has_key
            else "it may want a key: --header 'Authorization: Bearer ${env:NAME}'"
        )
        raise http.refusal(f"answers {_status(response)}; {advice}")
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        there = without_secrets(response.getheader("Location", ""))[:_SHOWN]
        raise http.refusal(
            f"answers {_status(response)}, and redirects are not followed; if you trust the address, give it: {there}"
        )
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise http.refusal(f"answers {_status(response)}; try again later")


def _status(response: HTTPResponse) -> str:
    try:
        return f"{response.status} {HTTPStatus(response.status).phrase}"
    except ValueError:
        return str(response.status)


def _kind(response: HTTPResponse) -> str:
    return response.getheader("Content-Type", "").partition(";")[0].strip().lower()
