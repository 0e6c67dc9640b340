"""HTTP to one server at its checked addresses, with bounds for bytes and time over all that is asked of it.

The client of the standard library is enough, and lets us connect ourselves: to an address that was checked, by no
proxy, which would look the name up again. No redirect is followed, so nothing else is ever asked.
"""

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from importlib.metadata import version
from threading import Timer
from typing import Self

from tracegrade.display import printable
from tracegrade.suites.imported import SuiteError
from tracegrade.suites.mcp.address import ServerAddress
from tracegrade.suites.mcp.headers import SentHeaders

MAX_BYTES = 8 * 1024 * 1024
CONNECT_S = 5.0
ANSWER_S = 15.0
MOST_S = 60.0

_CHUNK = 64 * 1024


class ServerHttp:
    """Requests to one server, each by a connection of its own; ends all of them when the time is over."""

    def __init__(
        self, server: ServerAddress, headers: Mapping[str, str], *, most_s: float = MOST_S, max_bytes: int = MAX_BYTES
    ) -> None:
        """Connect to nothing yet; the time begins.

        Args:
            server: where.
            headers: sent with every request; their values are shown nowhere.
            most_s: all requests together end after as many seconds, whatever the server does.
            max_bytes: most bytes of all answers together.
        """
        self.server = server
        self._headers = {"User-Agent": f"tracegrade/{version('tracegrade')}", **headers}
        self._sent = SentHeaders(headers)
        self._most_s = most_s
        self._max_bytes = max_bytes
        self._left_bytes = max_bytes
        self._is_late = False
        self._open: list[socket.socket] = []
        self._responses: list[HTTPResponse] = []
        self._timer = Timer(most_s, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._timer.cancel()
        for response in self._responses:
            response.close()
        for held in self._open:
            held.close()

    @property
    def has_key(self) -> bool:
        """Whether a header Authorization is sent."""
        return any(name.lower() == "authorization" for name in self._headers)

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> HTTPResponse:
        """The answer, of which only the head is read yet; it is closed at the end at the latest.

        Raises:
            SuiteError: there is none.
        """
        sent = {"Host": self.server.authority, "Connection": "close", "Accept-Encoding": "identity"}
        try:
            connection = HTTPConnection(self.server.host, self.server.port)
            connection.sock = self._connected()
            connection.request(method, target, body, {**sent, **self._headers, **headers})
            response = connection.getresponse()
            self._responses.append(response)
        except (OSError, HTTPException, ValueError) as error:
            raise self._failure(error) from None
        if response.getheader("Content-Encoding", "identity").lower() != "identity":
            raise self.refusal("answers something compressed, which it was not asked for")
        return response

    def read(self, response: HTTPResponse) -> str:
        """All of an answer. Raises `SuiteError` when it ends too early, is too long or comes too late."""
        parts = []
        try:
            while part := response.read1(_CHUNK):
                parts.append(self._counted(part))
        except (OSError, HTTPException, ValueError) as error:
            raise self._failure(error) from None
        finally:
            response.close()
        self._check_time()
        return b"".join(parts).decode(errors="replace")

    def lines(self, response: HTTPResponse) -> Iterator[str]:
        """The lines of an answer as they come, without their ends. Raises as `read`."""
        try:
            while line := response.readline(self._left_bytes + 1):
                yield self._counted(line).decode(errors="replace").rstrip("\r\n")
        except (OSError, HTTPException, ValueError) as error:
            raise self._failure(error) from None
        finally:
            response.close()
        self._check_time()

    def refusal(self, what: str) -> SuiteError:
        """The error that this server `what`, such as "answers 503"; without secrets, and on one line."""
        return SuiteError(f"{self.server.url}: {printable(self.without_secrets(what))}")

    def without_secrets(self, text: str) -> str:
        """`text` of the server with a mask wherever it repeats a header that was sent."""
        return self._sent.masked_in(text)

    def _connected(self) -> socket.socket:
        """A connection to the first checked address that takes one."""
        failure: OSError = OSError("no address")
        for family, address in self.server.found:
            self._check_time()
            made = socket.socket(family, socket.SOCK_STREAM)
            if self.server.scheme == "https":
                secured = ssl.create_default_context()
                made = secured.wrap_socket(made, server_hostname=self.server.host, do_handshake_on_connect=False)
            self._open.append(made)
            try:
                made.settimeout(CONNECT_S)
                made.connect(address)
                made.settimeout(ANSWER_S)
                if isinstance(made, ssl.SSLSocket):
                    made.do_handshake()
            except OSError as error:
                made.close()
                failure = error
            else:
                return made
        raise failure

    def _counted(self, part: bytes) -> bytes:
        self._check_time()
        self._left_bytes -= len(part)
        if self._left_bytes < 0:
            raise self.refusal(f"answers more than {self._max_bytes:,} bytes")
        return part

    def _end(self) -> None:
        """End what is under way: a server that sends a byte now and then would hold it for ever."""
        self._is_late = True
        for held in list(self._open):
            with suppress(OSError):  # it is closed already
                held.shutdown(socket.SHUT_RDWR)

    def _check_time(self) -> None:
        if self._is_late:
            raise self.refusal(f"has not told all its tools within {self._most_s:g} s")

    def _failure(self, error: Exception) -> SuiteError:
        self._check_time()
        if isinstance(error, TimeoutError):
            return self.refusal(f"no answer within {ANSWER_S:g} s")
        if isinstance(error, ssl.SSLCertVerificationError):
            return self.refusal(f"its certificate is not valid: {error.verify_message}")
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        return self.refusal(f"cannot be reached: {reason.strip()[:200]}")
