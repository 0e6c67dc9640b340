"""An agent that is an HTTP endpoint: each unit is one POST of JSON, whose ``traceparent`` names the unit.

What it answers is not judged: only its spans are. No redirect is followed, and no request is made twice, since an agent
may have done something already.
"""

import json
from collections.abc import Mapping
from importlib.metadata import version
from threading import Event, Thread
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.exceptions import TimeoutError as LateError

from tracegrade.display import printable, without_secrets
from tracegrade.models.pace import Stopped
from tracegrade.suites.agents.command import Ended
from tracegrade.suites.agents.target import AgentError

_CHUNK = 64 * 1024
_MAX_ANSWER_BYTES = 8 * 1024 * 1024
_SHOWN = 300
_LOOK_S = 0.05
_FOR_EVERY_CASE = frozenset({401, 403, 404, 405})
_SHORTEST_SECRET = 8  # a shorter one is a word that texts hold by chance
_MASK = "**********"


class Endpoint:
    """Requests to one agent; used by several threads."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float, at_a_time: int, stop: Event) -> None:
        """Connect to nothing yet."""
        self._url = url
        self._shown = without_secrets(url)
        self._headers = {
            "content-type": "application/json",
            "user-agent": f"tracegrade/{version('tracegrade')}",
            **headers,
        }
        self._secrets = [
            secret
            for value in headers.values()
            for secret in (value, value.rpartition(" ")[2])
            if len(secret) >= _SHORTEST_SECRET
        ]
        self._timeout_s = timeout_s
        self._stop = stop
        self._pool = _pool(url, timeout_s, at_a_time)

    def ask(self, body: Mapping[str, Any], traceparent: str) -> Ended:
        """Send one unit, and wait for the answer.

        Raises:
            AgentError: every other unit would end the same, as with an address where nothing is.
            Stopped: the run ended meanwhile.
        """
        found: list[Ended | Exception] = []

        def post() -> None:
            try:
                found.append(self._posted(body, traceparent))
            except Exception as error:
                found.append(error)

        # In a thread of its own, since a request under way cannot be ended.
        thread = Thread(target=post, name="suite agent request", daemon=True)
        thread.start()
        while thread.is_alive():
            if self._stop.is_set():
                raise Stopped
            thread.join(_LOOK_S)
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def _posted(self, body: Mapping[str, Any], traceparent: str) -> Ended:
        payload = json.dumps(body, ensure_ascii=False).encode(errors="replace")
        deadline_s = monotonic() + self._timeout_s
        try:
            response = self._pool.request(
                "POST",
                self._url,
                body=payload,
                headers={**self._headers, "traceparent": traceparent},
                preload_content=False,
                redirect=False,
            )
            try:
                text, length = b"", 0
                while part := response.read(_CHUNK, decode_content=True):
                    length += len(part)
                    text = (text + part)[:_CHUNK]
                    if length > _MAX_ANSWER_BYTES:
                        return Ended(f"{self._shown} answers more than {_MAX_ANSWER_BYTES // 1024**2} MiB", "too_large")
                    if monotonic() > deadline_s:
                        return self._late()
            finally:
                response.close()
        except NewConnectionError as error:
            why = printable(str(error).rpartition(": ")[2].rpartition("] ")[2])
            raise AgentError(f"{self._shown} cannot be reached: {why}; is the agent running there?") from None
        except LateError:
            return self._late()
        except (HTTPError, OSError, ValueError) as error:
            return Ended(f"{self._shown} did not answer: {type(error).__name__}", "no_answer")
        return self._read(response, text)

    def _late(self) -> Ended:
        return Ended(f"{self._shown} did not answer within {self._timeout_s:g} s", "timeout")

    def _read(self, response: urllib3.BaseHTTPResponse, text: bytes) -> Ended:
        status = response.status
        if 200 <= status < 300:
            return Ended()
        said = self._without_secrets(" ".join(text.decode(errors="replace").split()))[:_SHOWN]
        message = f"{self._shown} answers {status}" + (f": {printable(said)}" if said else "")
        if 300 <= status < 400:
            there = self._without_secrets(without_secrets(response.headers.get("location", "")))
            raise AgentError(
                f"{self._shown} answers {status}; redirects (to {printable(there)[:_SHOWN]}) are not followed: give "
                "--agent-url the address itself"
            )
        if status in _FOR_EVERY_CASE:
            raise AgentError(message)
        return Ended(message, "status")

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text

    def close(self) -> None:
        """Close idle connections; a request under way ends in its own thread."""
        self._pool.clear()


def _pool(url: str, timeout_s: float, at_a_time: int) -> urllib3.PoolManager:
    parts = urlsplit(url)
    options: dict[str, Any] = {
        "num_pools": 1,
        "maxsize": at_a_time,
        "retries": False,
        "timeout": urllib3.Timeout(connect=min(10.0, timeout_s), read=timeout_s),
    }
    proxy = getproxies().get(parts.scheme)
    if proxy and not proxy_bypass(parts.netloc):
        return urllib3.ProxyManager(proxy, **options)
    return urllib3.PoolManager(**options)
