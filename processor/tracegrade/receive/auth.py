"""Bearer tokens of callers: those of the settings, of a file that is read again when it changes, and those made."""

from math import ceil
from pathlib import Path

from tracegrade.access.caller import Caller
from tracegrade.access.rights import EVERYTHING, Right
from tracegrade.access.tokens import MadeTokens, digest_of
from tracegrade.access.wrong_tokens import WrongTokens
from tracegrade.model.errors import TraceGradeError
from tracegrade.otlp.reloading import Reloading
from tracegrade.receive.ingest import Refused
from tracegrade.receive.settings import AuthSettings, token_mistake


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
            TraceGradeError: the file cannot be read, or holds no token.
        """
        self._where = where
        self._made = made
        self._wrong = WrongTokens()
        self._stated = {
            digest: _caller(f"{where}.tokens[{number}]", digest)
            for number, digest in enumerate(digest_of(token.get_secret_value()) for token in settings.tokens)
        }
        path = settings.token_file
        self._filed: Reloading[dict[bytes, Caller]] | None = None
        if path is not None:
            self._filed = Reloading(f"{where}.token_file", [path], lambda: self._callers_of_file(path))
        self._refuse_made()

    def admitted(self, authorization: str | None, right: Right, address: str) -> Caller | Refused:
        """Who makes a request from `address`, which needs `right`, by this header; or why it is not taken.

        An address that showed many wrong tokens is asked to wait. Who shows a right one never has to.
        """
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
        elif (wait_s := self._wrong.wait_s(address)) > 0:
            return Refused(
                "too_many_failures",
                f"{self._where}: the request is not taken: too many wrong tokens came from {address}; try again later",
                ceil(wait_s),
            )
        else:
            self._wrong.add(address)
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
            self._filed.poll()
            if (filed := self._filed.value.get(digest)) is not None:
                return filed
        return None if self._made is None else self._made.caller(digest)

    def _callers_of_file(self, path: str) -> dict[bytes, Caller]:
        where = f"{self._where}.token_file"
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise TraceGradeError(f"{where}: cannot read {path!r}: {why}") from None
        found: dict[bytes, Caller] = {}
        for number, line in enumerate(lines, 1):
            if not (token := line.strip()):
                continue
            if (why := token_mistake(token)) is not None:
                raise TraceGradeError(f"{where}: {path!r}: line {number}: {why}")
            digest = digest_of(token)
            if (twice := (self._stated | found).get(digest)) is not None:
                raise TraceGradeError(f"{where}: {path!r}: line {number} is the same token as {twice.name}")
            found[digest] = _caller(f"{where} line {number}", digest)
        if not found:
            raise TraceGradeError(f"{where}: {path!r}: expected a token a line, found none")
        return found

    def _refuse_made(self) -> None:
        """A token that was made has its own rights; in the settings it would have all of them."""
        made = {} if self._made is None else self._made.digests()
        for digest, caller in (self._stated | ({} if self._filed is None else self._filed.value)).items():
            if digest in made:
                raise TraceGradeError(
                    f"{caller.name}: this is the token {made[digest]!r} that 'tracegrade tokens' made, and would have "
                    "every right here; remove it: who has auth knows it anyway"
                )


def _caller(name: str, digest: bytes) -> Caller:
    return Caller(EVERYTHING, None, name, digest.hex()[:16])
