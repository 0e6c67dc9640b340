"""An agent that is an HTTP endpoint: each unit is one POST of JSON, whose ``traceparent`` names the unit.

What it answers is not judged: only its spans are. No redirect is followed, and no request is made twice, since an agent
may have done something already.
"""

from collections.abc import Mapping
from threading import Event
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as LateError

from tracegrade.display import printable, without_secrets
from tracegrade.model.errors import TraceGradeError
from tracegrade.suites.agents.command import Ended
from tracegrade.suites.headers import SentHeaders
from tracegrade.suites.models.connections import Answered, Connections, TooLarge
from tracegrade.suites.models.pace import Stopped

_MOST_READ = 64 * 1024  # of an answer that is an error
_CONNECT_S = 10.0
_SHOWN = 300
_FOR_EVERY_CASE = frozenset({401, 403, 404, 405})


class Endpoint:
    """Requests to one agent; used by several threads."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float, at_a_time: int, stop: Event) -> None:
        """Connect to nothing yet."""
        self._url = url
        self._shown = without_secrets(url)
        self._headers = {**headers, "connection": "close"}  # a unit takes long, and many servers do not wait
        self._sent = SentHeaders(headers)
        self._timeout_s = timeout_s
        self._stop = stop
        timeout = urllib3.Timeout(connect=min(_CONNECT_S, timeout_s), read=timeout_s)
        self._connections = Connections(url, at_a_time, timeout, stop)

    def ask(self, body: Mapping[str, Any], traceparent: str) -> Ended:
        """Send one unit, and wait for the answer.

        Raises:
            TraceGradeError: every other unit would end the same, as with an address where nothing is.
            Stopped: the run ended meanwhile.
        """
        headers = {**self._headers, "traceparent": traceparent}
        try:
            return self._ended(self._connections.post(self._url, body, headers, self._timeout_s))
        except TooLarge as error:
            return Ended(f"{self._shown} {error}", "too_large")
        except (HTTPError, OSError, ValueError) as error:
            if self._stop.is_set():  # then `close` may be what broke it off
                raise Stopped from None
            if isinstance(error, NewConnectionError):
                why = printable(str(error).rpartition(": ")[2].rpartition("] ")[2])
                raise TraceGradeError(f"{self._shown} cannot be reached: {why}; is the agent running there?") from None
            if isinstance(error, LateError):
                return Ended(f"{self._shown} did not answer within {self._timeout_s:g} s", "timeout")
            return Ended(f"{self._shown} did not answer: {type(error).__name__}", "no_answer")

    def _ended(self, answered: Answered) -> Ended:
        status, headers, text = answered
        if 200 <= status < 300:
            return Ended()
        said = self._sent.masked_in(" ".join(text[:_MOST_READ].decode(errors="replace").split()))[:_SHOWN]
        message = f"{self._shown} answers {status}" + (f": {printable(said)}" if said else "")
        if 300 <= status < 400:
            there = self._sent.masked_in(without_secrets(headers.get("location", "")))
            raise TraceGradeError(
                f"{self._shown} answers {status}; redirects (to {printable(there)[:_SHOWN]}) are not followed: give "
                "--agent-url the address itself"
            )
        if status in _FOR_EVERY_CASE:
            raise TraceGradeError(message)
        return Ended(message, "status")

    def close(self) -> None:
        """Close all connections; requests under way are broken off."""
        self._connections.close()
