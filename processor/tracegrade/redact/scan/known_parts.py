"""Parts of requests in which nothing was found, known by digests: agents send the same messages again and again."""

from hashlib import blake2b
from secrets import token_bytes

_MOST = 50_000  # of each of two generations: 10 MB in all
_DIGEST_BYTES = 16


class KnownParts:
    """A bounded set of bytes, of which it keeps none: only digests by a key of this process.

    What something was found in is never put here, so that nobody who sees the digests learns anything of values.
    Several threads may use it: at worst one adds what another forgets.
    """

    def __init__(self) -> None:
        self._key = token_bytes(_DIGEST_BYTES)
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()

    def digest(self, part: bytes, way: str) -> bytes:
        """What `part` is known by, looked at in one way of several: 16 characters or less."""
        return blake2b(part, digest_size=_DIGEST_BYTES, key=self._key, salt=way.encode()).digest()

    def __contains__(self, digest: bytes) -> bool:
        if digest in self._new:
            return True
        if digest not in self._old:
            return False
        self.add(digest)  # what comes again is kept
        return True

    def add(self, digest: bytes) -> None:
        """Remember it, and forget what did not come for long."""
        if len(self._new) >= _MOST:
            self._old, self._new = self._new, set()
        self._new.add(digest)
