"""HTTP POST for channels, with the reason when it failed."""

from collections.abc import Mapping
from importlib.metadata import version


class Poster:
    """Posts JSON to one place over one connection."""

    def __init__(self, timeout_s: float) -> None:
        import requests  # imported here, as few installations send alerts this way

        self._timeout_s = timeout_s
        self._failure = requests.RequestException
        self._session = requests.Session()
        self._session.headers["User-Agent"] = f"tracegrade/{version('tracegrade')}"

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        """Post `body`. Returns None when it was taken, else why not. Blocks. Redirects are not followed."""
        try:
            response = self._session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json", **headers},
                timeout=self._timeout_s,
                allow_redirects=False,
            )
        except self._failure as error:
            return f"cannot be reached: {type(error).__name__}"
        return None if response.ok and not response.is_redirect else f"answered {response.status_code}"

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
