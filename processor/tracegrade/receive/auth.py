"""Bearer tokens of senders, from settings and from a file that is read again when it changes."""

from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from tracegrade.otlp.reloading import Reloading
from tracegrade.receive.ingest import Refused
from tracegrade.receive.listen import ReceiverStartError
from tracegrade.receive.settings import AuthSettings, is_token


class BearerTokens:
    """The tokens that one protocol lets in."""

    def __init__(self, where: str, settings: AuthSettings) -> None:
        """Read the file, if there is one.

        Args:
            where: the path of `settings`, for messages.
            settings: the tokens, and their file.

        Raises:
            ReceiverStartError: the file cannot be read, or holds no token.
        """
        self._where = where
        self._stated = [_digest(token.get_secret_value()) for token in settings.tokens]
        path = settings.token_file
        self._filed: Reloading[list[bytes]] | None = None
        if path is not None:
            self._filed = Reloading(f"{where}.token_file", [path], lambda: _read(where, path))

    def refusal(self, authorization: str | None) -> Refused | None:
        """Why a request with this ``authorization`` header is not taken; None when it is."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() == "bearer" and self.knows(token.strip()):
            return None
        if not scheme:
            why = "it has no header 'authorization'"
        elif scheme.lower() != "bearer":
            why = "its header 'authorization' is of another scheme than Bearer"
        else:
            why = "its token is not accepted; ask the operator of this receiver for one"
        return Refused(
            "unauthenticated",
            f"{self._where}: the request is not taken: {why}. Senders must send 'authorization: Bearer TOKEN' "
            "(OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN)",
        )

    def knows(self, token: str) -> bool:
        """Whether this is one of the tokens; a changed file is read first."""
        if self._filed is not None:
            self._filed.look()
        # Digests of one length, each compared as a whole, and always all of them: the time reveals nothing of a token.
        given = _digest(token)
        known: Sequence[bytes] = self._stated if self._filed is None else [*self._stated, *self._filed.value]
        return any([compare_digest(given, digest) for digest in known])


def _read(where: str, path: str) -> list[bytes]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ReceiverStartError(f"{where}.token_file: cannot read {path!r}: {why}") from None
    tokens = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    wrong = [number for number, token in tokens if not is_token(token)]
    if wrong or not tokens:
        found = f"line {wrong[0]} is something else" if wrong else "found none"
        raise ReceiverStartError(
            f"{where}.token_file: {path!r}: expected a token a line, of printable ASCII without spaces; {found}"
        )
    return [_digest(token) for _, token in tokens]


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
