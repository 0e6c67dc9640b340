"""Bytes made small: zstandard, one context a thread."""

import threading

import zstandard

# Level 3 is 15 % slower here and no smaller; the negative levels save 4 µs a trace and make it half as large again,
# which SQLite then has to write.
_LEVEL = 1


class _Contexts(threading.local):
    """A zstandard context must not be used from two threads at once, and making one costs more than its use."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def pack(data: bytes) -> bytes:
    """`data` compressed."""
    return _contexts.compressor.compress(data)


def unpack(data: bytes) -> bytes:
    """What `pack` was given.

    Raises:
        ValueError: `data` is not what `pack` returned.
    """
    try:
        return _contexts.decompressor.decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(f"compressed bytes are damaged: {error}") from None
