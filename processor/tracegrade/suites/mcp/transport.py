"""The HTTP by which the MCP SDK asks one server: to its checked addresses alone, by no proxy, and within bounds.

The SDK makes every request through this, also where it opens a session, comes back to a stream or would follow a
redirect, so that what is refused here is never sent.
"""

import os
import ssl
from asyncio import Timeout
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import httpx2

from tracegrade.display import printable, without_secrets
from tracegrade.suites.headers import SentHeaders
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.mcp.address import ServerAddress

MAX_BYTES = 8 * 1024 * 1024
CONNECT_S = 5.0

_EVENTS = "text/event-stream"
_SPOKEN = ("application/json", _EVENTS)
_SHOWN = 200  # characters of what a server answers


class CheckedTransport(httpx2.AsyncHTTPTransport):
    """Requests to one server; the first that is refused ends all of them.

    ``refused`` is why. ``answers`` has, by method, the status and type of the last answer; ``is_spoken`` whether a POST
    was answered as MCP's streamable HTTP is.
    """

    def __init__(self, server: ServerAddress, headers: Mapping[str, str], deadline: Timeout, answer_s: float) -> None:
        """Connect to nothing yet.

        Args:
            server: where.
            headers: sent with every request; their values are shown nowhere.
            deadline: ends the conversation; brought forward when something is refused, since the SDK would wait on.
            answer_s: the longest wait for each part of an answer.
        """
        # The library's own context would not read SSL_CERT_FILE. Loading authorities takes 60 ms; http needs none.
        is_secure = server.scheme == "https"
        super().__init__(verify=ssl.create_default_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self.refused: SuiteError | None = None
        self.answers: dict[str, str] = {}
        self.is_spoken = False
        self.url = f"{server.scheme}://{server.authority}{server.target}"
        self._server = server
        self._origin = _origin(httpx2.URL(self.url))
        self._headers = headers
        self._sent = SentHeaders(headers)
        self._deadline = deadline
        self._answer_s = answer_s
        self._left_bytes = MAX_BYTES

    def client(self, headers: object = None, timeout: object = None, auth: object = None) -> httpx2.AsyncClient:
        """A client that goes by this transport and reads no settings from the environment.

        The arguments are those by which the SDK makes a client; all that counts is known here.
        """
        own = {"User-Agent": f"tracegrade/{version('tracegrade')}", "Accept-Encoding": "identity"}
        return httpx2.AsyncClient(
            transport=self,
            headers={**own, **self._headers},
            timeout=httpx2.Timeout(self._answer_s, connect=min(CONNECT_S, self._answer_s)),
            trust_env=False,
        )

    def refusal(self, what: str) -> SuiteError:
        """The error that this server `what`, such as "answers 503"; without secrets, and on one line."""
        return SuiteError(f"{self._server.url}: {printable(self._sent.masked_in(what))}")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer of the first checked address that takes a connection; raises `SuiteError` when it is refused."""
        if _origin(request.url) != self._origin:
            raise self.refuse("leads to another server, which is not asked")
        try:
            response = await self._connected(request)
        except httpx2.TransportError as error:
            raise self.failure(error) from None
        try:
            self._check(request.method, response)
        except SuiteError:
            await response.aclose()
            raise
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Counted(response.stream, self),
            extensions=response.extensions,
        )

    def count(self, part: bytes) -> None:
        """Take what was read of an answer into account; raises `SuiteError` when all answers are too long."""
        self._left_bytes -= len(part)
        if self._left_bytes < 0:
            raise self.refuse(f"answers more than {MAX_BYTES:,} bytes")

    async def _connected(self, request: httpx2.Request) -> httpx2.Response:
        failure: httpx2.TransportError = httpx2.ConnectError("no address")
        for _, address in self._server.found:
            there = httpx2.Request(
                request.method,
                request.url.copy_with(host=address[0], port=address[1]),
                headers=request.headers,  # with the name as Host
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": self._server.host},  # whose certificate it must be
            )
            try:
                return await super().handle_async_request(there)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:  # nothing was sent yet
                failure = error
        raise failure

    def refuse(self, what: str) -> SuiteError:
        """End the conversation with the error that this server `what`, unless it ended already."""
        if self.refused is None:
            self.refused = self.refusal(what)
            if not self._deadline.expired():
                self._deadline.reschedule(0)
        return self.refused

    def failure(self, error: httpx2.TransportError) -> SuiteError:
        """Refuse because of what went wrong on the way."""
        if isinstance(error, httpx2.TimeoutException):
            return self.refuse(f"no answer within {self._answer_s:g} s")
        cause: BaseException = error
        while (further := cause.__cause__ or cause.__context__) is not None:
            cause = further
        if isinstance(cause, ssl.SSLCertVerificationError):
            return self.refuse(f"its certificate is not valid: {cause.verify_message}")
        number = cause.errno if isinstance(cause, OSError) else None
        reason = (os.strerror(number) if number else str(error)) or type(error).__name__
        return self.refuse(f"cannot be reached: {reason.strip()[:_SHOWN]}")

    def _check(self, method: str, response: httpx2.Response) -> None:
        """Note an answer, and refuse what no other transport would mend."""
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        self.answers[method] = f"{response.status_code}" + (f" ({kind})" if kind else "")
        self.is_spoken |= method == "POST" and response.status_code == HTTPStatus.OK and kind in _SPOKEN
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise self.refuse("answers something compressed, which it was not asked for")
        # Streamable HTTP goes on where the server gives no stream of its own, or does not let us end the session.
        if method == "POST" or not self.is_spoken or response.is_redirect:
            self._check_status(response)

    def _check_status(self, response: httpx2.Response) -> None:
        status = response.status_code
        said = f"answers {status} {response.reason_phrase}".rstrip()
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            has_key = any(name.lower() == "authorization" for name in self._headers)
            advice = (
                "the key that was sent is not accepted"
                if has_key
                else "it may want a key: --header 'Authorization: Bearer ${env:NAME}'"
            )
            raise self.refuse(f"{said}; {advice}")
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            there = without_secrets(response.headers.get("Location", ""))[:_SHOWN]
            raise self.refuse(f"{said}, and redirects are not followed; if you trust the address, give it: {there}")
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self.refuse(f"{said}; try again later")


class _Counted(httpx2.AsyncByteStream):
    """The bytes of an answer, which count."""

    def __init__(self, stream: Any, transport: CheckedTransport) -> None:
        self._stream = stream
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._stream:
                self._transport.count(part)
                yield part
        except httpx2.TransportError as error:
            raise self._transport.failure(error) from None

    async def aclose(self) -> None:
        await self._stream.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
