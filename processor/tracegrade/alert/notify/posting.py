"""HTTP POST for channels, with the reason when it failed."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from urllib3 import PoolManager

_MAX_ANSWER_BYTES = 64 * 1024


class Poster:
    """Posts JSON to one place over one connection."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Connect to nothing yet; `timeout_s` bounds the wait for a connection, and for each part of the answer."""
        self._url = url
        self._timeout_s = timeout_s
        self._pool: PoolManager | None = None

    def post(self, body: bytes, headers: Mapping[str, str]) -> str | None:
        """Post `body`. Returns None when it was taken, else why not. Blocks. Redirects are not followed."""
        from urllib3 import HTTPHeaderDict, Timeout  # imported here, as few installations send alerts this way
        from urllib3.exceptions import HTTPError

        from tracegrade.otlp.http_pool import basic_auth, http_pool

        parts = urlsplit(self._url)
        place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()  # a proxy need not see the password
        sent = HTTPHeaderDict(basic_auth("Authorization", self._url))
        sent.update(
            {"Content-Type": "application/json", "User-Agent": f"tracegrade/{version('tracegrade')}", **headers}
        )
        try:
            if self._pool is None:
                self._pool = http_pool(self._url, timeout=Timeout(connect=self._timeout_s, read=self._timeout_s))
            response = self._pool.request("POST", place, body=body, headers=sent, preload_content=False)
            is_long = len(response.read(_MAX_ANSWER_BYTES + 1)) > _MAX_ANSWER_BYTES
            response.release_conn()
            if is_long:
                response.close()  # the rest stays unread, so the connection cannot be used again
        except (HTTPError, OSError, ValueError) as error:
            return f"{urlsplit(place).netloc} cannot be reached: {_reason(error)}"
        return None if 200 <= response.status < 300 else f"answered {response.status}"

    def close(self) -> None:
        """Close the connection."""
        if self._pool is not None:
            self._pool.clear()


def _reason(error: BaseException) -> str:
    """What the system said, such as ``Connection refused``; never the text of `error`, which may hold a secret URL."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and (said := cause.strerror or str(cause)):
            return said
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
