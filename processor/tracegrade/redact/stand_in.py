"""Stand-ins for redacted values: masks, and hashes by a tenant's key."""

import hmac
import re
from functools import lru_cache

MASK = "[redacted]"
_KEY_ID_DIGITS = 6
_HASH_DIGITS = 20
# What a text is hashed by: spaces, quotes, brackets and the marks at the end of a word stay.
_PIECE = re.compile(r"[^\s\"'`,;()\[\]{}<>]*[^\s\"'`,;()\[\]{}<>.:!?]")


def mask(detector: str = "") -> str:
    """The mask of what a detector found, or of what is masked by its place."""
    return f"[redacted:{detector}]" if detector else MASK


class TenantKey:
    """The key of one tenant: equal values have equal hashes, of which nobody learns the values without the key."""

    __slots__ = ("_key", "id")

    def __init__(self, key: bytes, tenant: str) -> None:
        self._key = hmac.digest(key, b"tenant\0" + tenant.encode(), "sha256")
        self.id = hmac.digest(self._key, b"id", "sha256").hex()[:_KEY_ID_DIGITS]

    def hash_of(self, value: str) -> str:
        """The hash of `value` as a whole: ``[hash:KEYID:20 hex digits]``."""
        digest = hmac.digest(self._key, b"value\0" + value.encode("utf-8", "surrogatepass"), "sha256")
        return f"[hash:{self.id}:{digest.hex()[:_HASH_DIGITS]}]"

    def hashed_text(self, text: str) -> str:
        """`text` with a hash for each of its words, so that a value in it still equals the value elsewhere."""
        return _PIECE.sub(lambda match: self.hash_of(match.group()), text)


class Keys:
    """The keys of all tenants, made of one; ``id`` says which, and nothing of it."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self.id = hmac.digest(self._key, b"id", "sha256").hex()[:_KEY_ID_DIGITS]
        self.of = lru_cache(maxsize=1024)(self._of)

    def _of(self, tenant: str) -> TenantKey:
        return TenantKey(self._key, tenant)
