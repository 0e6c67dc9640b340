"""Tokens that ``tracegrade tokens`` makes: one file of them, with hashes of their secrets, never the secrets.

The file is written whole, under a lock, and replaced at once: who reads it finds the old one or the new one. Servers
look once a second whether it has changed, so a revoked token is refused within a second.
"""

import fcntl
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Annotated
from zlib import crc32

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from tracegrade.access.caller import Caller
from tracegrade.access.rights import Role, rights_of
from tracegrade.document.file_model import FileModel
from tracegrade.document.tenants import Tenant
from tracegrade.journal.files import replace_file
from tracegrade.model.errors import TraceGradeError
from tracegrade.otlp.reloading import Reloading

PREFIX = "tgr_"

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_DIGITS = 30  # 178 bits
_CHECK_DIGITS = 6
_LONGEST_NAME = 100
_DIGEST = re.compile(r"[0-9a-f]{64}")


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise ValueError("expected 64 hexadecimal digits")  # what was found may be a secret
    return text


def checked_name(text: str) -> str:
    """`text`, if a token can have this name.

    Raises:
        ValueError: it is empty, too long, or holds characters that cannot be shown.
    """
    if not text.strip() or len(text) > _LONGEST_NAME or not text.isprintable():
        raise ValueError(f"expected a name of 1 to {_LONGEST_NAME} printable characters, found {text!r}")
    return text


Digest = Annotated[str, AfterValidator(_digest)]
Name = Annotated[str, AfterValidator(checked_name)]


class MadeToken(FileModel):
    """A token as its file has it; times are ns since 1970 UTC. Secrets are random, so their plain hash is enough."""

    id: str
    name: Name
    secret_sha256: Digest
    roles: list[Role] = Field(min_length=1)
    tenant: Tenant | None = None
    created_ns: int
    expires_ns: int | None = None
    revoked_ns: int | None = None
    old_secret_sha256: Digest | None = None
    old_until_ns: int | None = None

    def is_valid(self, now_ns: int) -> bool:
        """Whether the token lets somebody in at that time."""
        return self.revoked_ns is None and (self.expires_ns is None or now_ns < self.expires_ns)

    def knows(self, digest: bytes, now_ns: int) -> bool:
        """Whether this is the hash of its secret, or of the one before that at that time is still accepted."""
        if not self.is_valid(now_ns):
            return False
        if digest.hex() == self.secret_sha256:
            return True
        return digest.hex() == self.old_secret_sha256 and self.old_until_ns is not None and now_ns < self.old_until_ns

    @property
    def digests(self) -> list[bytes]:
        """The hashes of its secret, and of the one before."""
        return [bytes.fromhex(text) for text in (self.secret_sha256, self.old_secret_sha256) if text is not None]

    @property
    def caller(self) -> Caller:
        """Who shows it."""
        return Caller(rights_of(self.roles), self.tenant, self.name, self.id)


class MadeTokens:
    """The tokens of a file, as they are in force; a file that is not there holds none."""

    def __init__(self, path: Path, now_ns: Callable[[], int] = time.time_ns) -> None:
        """Read the file.

        Raises:
            TraceGradeError: it cannot be read, or is damaged.
        """
        self.path = path
        self._now_ns = now_ns
        self._filed = Reloading(str(path), [str(path)], lambda: _by_digest(path))

    def caller(self, digest: bytes) -> Caller | None:
        """Who shows the token with this hash; None for one that is unknown, expired, revoked or replaced."""
        self._filed.poll()
        # Looking up a hash tells nothing of the secret by its time: who guesses cannot choose what it begins with.
        token = self._filed.value.get(digest)
        return token.caller if token is not None and token.knows(digest, self._now_ns()) else None

    def digests(self) -> Mapping[bytes, str]:
        """The hashes of all secrets that ever let somebody in, with the names of their tokens."""
        return {digest: token.name for digest, token in self._filed.value.items()}


def stored_tokens(path: Path) -> list[MadeToken]:
    """All tokens of a file, also those that were revoked, the oldest first; [] when there is none.

    Raises:
        TraceGradeError: the file cannot be read, or is damaged.
    """
    try:
        tokens = _FILE.validate_json(path.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TraceGradeError(f"{path}: the tokens cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise TraceGradeError(
            f"{path}: {place}: {first['msg']}; the file is what 'tracegrade tokens' writes: restore it from a backup, "
            "or remove it and make new tokens"
        ) from None
    _refuse_shared(path, tokens)
    return tokens


def new_token(
    path: Path, name: str, roles: Sequence[Role], tenant: str | None, lives_s: float | None, now_ns: int
) -> tuple[MadeToken, str]:
    """Make a token and keep it. Returns it, and its secret, which is kept nowhere.

    Raises:
        TraceGradeError: another valid token has the name.
    """
    secret = _new_secret()
    with _changing(path) as tokens:
        if any(token.name == name and token.is_valid(now_ns) for token in tokens):
            raise TraceGradeError(f"there is a token {name!r} already; rotate it, revoke it, or choose another name")
        token = MadeToken(
            id=secrets.token_hex(4),
            name=name,
            secret_sha256=digest_of(secret).hex(),
            roles=list(dict.fromkeys(roles)),
            tenant=tenant,
            created_ns=now_ns,
            expires_ns=_after(now_ns, lives_s),
        )
        tokens.append(token)
    return token, secret


def rotate_token(path: Path, called: str, grace_s: float, lives_s: float | None, now_ns: int) -> tuple[MadeToken, str]:
    """Give a token another secret; the old one is accepted for `grace_s` seconds more.

    With `lives_s`, it expires that long after now; without, when it would have. Returns it, and its new secret.

    Raises:
        TraceGradeError: there is no such token, or it was revoked or has expired.
    """
    secret = _new_secret()
    with _changing(path) as tokens:
        token = _called(path, tokens, called, now_ns)
        changed = token.model_copy(
            update={
                "secret_sha256": digest_of(secret).hex(),
                "old_secret_sha256": token.secret_sha256,
                "old_until_ns": now_ns + round(grace_s * 1e9),
                "expires_ns": token.expires_ns if lives_s is None else _after(now_ns, lives_s),
            }
        )
        tokens[tokens.index(token)] = changed
    return changed, secret


def revoke_token(path: Path, called: str, now_ns: int) -> MadeToken:
    """Revoke a token.

    Raises:
        TraceGradeError: there is no such token, or it was revoked or has expired.
    """
    with _changing(path) as tokens:
        token = _called(path, tokens, called, now_ns)
        changed = token.model_copy(update={"revoked_ns": now_ns})
        tokens[tokens.index(token)] = changed
    return changed


def digest_of(token: str) -> bytes:
    """What is kept and compared in place of a token."""
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _by_digest(path: Path) -> dict[bytes, MadeToken]:
    return {digest: token for token in stored_tokens(path) for digest in token.digests}


def _refuse_shared(path: Path, tokens: Sequence[MadeToken]) -> None:
    """One secret in two tokens would give its user the rights of the one or the other."""
    names: dict[bytes, str] = {}
    for token in tokens:
        for digest in token.digests:
            if digest in names:
                raise TraceGradeError(
                    f"{path}: the tokens {names[digest]!r} and {token.name!r} have one secret; each needs its own: "
                    "take both out of the file, and make new ones"
                )
            names[digest] = token.name


@contextmanager
def _changing(path: Path) -> Iterator[list[MadeToken]]:
    """The tokens of the file, which is written again with what the block makes of them."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.with_name(f"{path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = stored_tokens(path)
            yield tokens
            replace_file(path, _FILE.dump_json(tokens, indent=2, exclude_none=True) + b"\n", 0o600)
    except OSError as error:
        raise TraceGradeError(f"{path}: the tokens cannot be written: {error.strerror}") from None


def _called(path: Path, tokens: Sequence[MadeToken], called: str, now_ns: int) -> MadeToken:
    """The valid token with this name, or with this id."""
    found = [token for token in tokens if called in (token.name, token.id)]
    valid = [token for token in found if token.is_valid(now_ns)]
    if not valid:
        what = "is not valid any more: it was revoked or has expired" if found else "does not exist"
        raise TraceGradeError(f"the token {called!r} {what}; 'tracegrade tokens list --all' shows those of {path}")
    if len(valid) > 1:
        raise TraceGradeError(
            f"{called!r} is the name of one token and the id of another; use the id of the one you mean"
        )
    return valid[0]


def _after(now_ns: int, lives_s: float | None) -> int | None:
    return None if lives_s is None else now_ns + round(lives_s * 1e9)


def _new_secret() -> str:
    """A secret that is recognised by its beginning, and by the CRC-32 at its end, as those of other issuers."""
    body = "".join(secrets.choice(_BASE62) for _ in range(_RANDOM_DIGITS))
    number, check = crc32(body.encode()), ""
    for _ in range(_CHECK_DIGITS):
        number, digit = divmod(number, 62)
        check = _BASE62[digit] + check
    return f"{PREFIX}{body}{check}"


_FILE = TypeAdapter(list[MadeToken])
