"""The hash by which rules, settings, prompts and files are known."""

from hashlib import blake2b


def short_hash(content: bytes) -> str:
    """16 hex digits that stand for `content`."""
    return blake2b(content, digest_size=8).hexdigest()
