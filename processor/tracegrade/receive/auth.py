"""Bearer tokens of callers: those of the settings, of a file that is read again when it changes, and those made."""

from pathlib import Path

from tracegrade.access.caller import Caller
from tracegrade.access.rights import EVERYTHING, Right
from tracegrade.access.tokens import MadeTokens, digest_of
from tracegrade.otlp.reloading import Reloading
from tracegrade.receive.ingest import Refused
from tracegrade.receive.listen import ReceiverStartError
from tracegrade.receive.settings import AuthSettings, is_token


class BearerTokens:
    """The tokens that one server lets in.

    Those of the settings and of their file have every right, and every tenant; those that were made have their own.
    """

    def __init__(self, where: str, settings: AuthSettings, made: MadeTokens | None = None) -> None:
        """Read the file, if there is one.

        Args:
            where: the path of `settings`, for messages.
            settings: the tokens, and their file.
            made: those that ``tracegrade tokens`` made.

        Raises:
            ReceiverStartError: the file cannot be read, or holds no token.
        """
        self._where = where
        self._made = made
        self._stated = {
            digest: _caller(f"{where}.tokens[{number}]", digest)
            for number, digest in enumerate(digest_of(token.get_secret_value()) for token in settings.tokens)
        }
        path = settings.token_file
        self._filed: Reloading[dict[bytes, Caller]] | None = None
        if path is not None:
            self._filed = Reloading(f"{where}.token_file", [path], lambda: _read(where, path))

    def admitted(self, authorization: str | None, right: Right) -> Caller | Refused:
        """Who makes a request with this ``authorization`` header, which needs `right`; or why it is not taken."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        caller = self.caller(token.strip()) if scheme.lower() == "bearer" else None
        if caller is not None and caller.may(right):
            return caller
        if caller is not None:
            return Refused(
                "no_right",
                f"{self._where}: the request is not taken: the token {caller.name!r} has not the right {right!r}; ask "
                "the operator of this receiver for one that has",
            )
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

    def caller(self, token: str) -> Caller | None:
        """Who shows this token; None for one that is not accepted. Changed files are read first."""
        # Looking up a hash tells nothing of the secret by its time: who guesses cannot choose what it begins with.
        digest = digest_of(token)
        if (stated := self._stated.get(digest)) is not None:
            return stated
        if self._filed is not None:
            self._filed.look()
            if (filed := self._filed.value.get(digest)) is not None:
                return filed
        return None if self._made is None else self._made.caller(digest)


def _read(where: str, path: str) -> dict[bytes, Caller]:
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
    digests = ((number, digest_of(token)) for number, token in tokens)
    return {digest: _caller(f"{where}.token_file line {number}", digest) for number, digest in digests}


def _caller(name: str, digest: bytes) -> Caller:
    return Caller(EVERYTHING, None, name, digest.hex()[:16])
