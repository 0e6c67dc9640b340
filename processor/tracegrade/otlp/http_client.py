"""OTLP/HTTP out: protobuf bodies through urllib3, in a bounded pool of threads.

Threads, because our dependencies include urllib3 and no asyncio HTTP client; the threads mostly wait.
"""

import asyncio
import gzip
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError, NewConnectionError, TimeoutError

from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import PROTOBUF, Answer, http_answer
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.otlp.http_pool import http_pool
from tracegrade.semconv import HEARD_HEADER

_MAX_ANSWER_BYTES = 64 * 1024  # as in the collector: enough for any status, and a proxy cannot fill our memory
_GZIP_LEVEL = 1  # half the time of level 6 for a few per cent of the size


class HttpClient:
    """Kept-alive connections to one peer; at most ``connections`` requests at a time, others wait their turn."""

    def __init__(self, settings: ExporterSettings, headers: dict[str, str], connections: int) -> None:
        self._base = settings.endpoint.rstrip("/")
        self._headers = {**headers, "content-type": PROTOBUF}
        self._compress = settings.compresses
        if self._compress:
            self._headers["content-encoding"] = "gzip"
        self._pool = _pool(settings, connections)
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="otlp-http")

    async def export(self, signal: Signal, payload: bytes, heard: str) -> Answer:
        """Make one attempt; `heard` is for `HEARD_HEADER`, "" for none."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._post, signal, payload, heard)

    def _post(self, signal: Signal, payload: bytes, heard: str) -> Answer:
        headers = {**self._headers, HEARD_HEADER: heard} if heard else self._headers
        body = gzip.compress(payload, _GZIP_LEVEL, mtime=0) if self._compress else payload
        url = f"{self._base}/v1/{signal.name.lower()}"
        try:
            response = self._pool.request("POST", url, body=body, headers=headers, preload_content=False)
            try:
                text = response.read(_MAX_ANSWER_BYTES, decode_content=True)
                more = response.read(1)
            finally:
                response.release_conn()
            if more:
                response.close()  # the rest stays unread, so the connection cannot be used again
        except LocationParseError as error:
            return Answer("failed", "endpoint", message=str(error))
        except HTTPError as error:
            # urllib3 makes a refused connection a kind of time-out.
            late = isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError)
            return Answer("retry", "timeout" if late else "connection", message=str(error))
        names = {name.lower(): value for name, value in response.headers.items()}
        return http_answer(signal, response.status, names, text, time.time())

    async def close(self, grace_s: float) -> None:
        """Close the connections; an attempt under way ends by its time-out, in its own thread.

        With a grace period, attempts that wait their turn are also made.
        """
        self._threads.shutdown(wait=False, cancel_futures=grace_s == 0)
        self._pool.clear()


def _pool(settings: ExporterSettings, connections: int) -> urllib3.PoolManager:
    options: dict[str, Any] = {"maxsize": connections, "timeout": urllib3.Timeout(total=settings.timeout)}
    if urlsplit(settings.endpoint).scheme == "https":
        options["ssl_context"] = settings.tls_context()
        if name := settings.tls.server_name_override:
            options |= {"server_hostname": name, "assert_hostname": name}
    return http_pool(settings.endpoint, **options)  # no redirects: traces go only to the endpoint in the settings
