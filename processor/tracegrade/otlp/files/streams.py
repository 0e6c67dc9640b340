"""Reads streams of bytes: their first bytes, and their content without compression."""

import gzip
import io
from typing import Any, BinaryIO

from zstandard import ZstdDecompressor


def decompressed(stream: BinaryIO) -> BinaryIO:
    """`stream` without the compression that its first bytes show."""
    head, stream = peek(stream, 4)
    if head.startswith(b"\x1f\x8b"):
        return gzip.open(stream, "rb")  # type: ignore[return-value]  # a GzipFile reads as any binary file does
    if head == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(_Unzstd(stream))
    return stream


def peek(stream: BinaryIO, size: int) -> tuple[bytes, BinaryIO]:
    """The first `size` bytes, and a stream that still begins with them; pipes cannot seek back."""
    head = stream.read(size)
    return head, io.BufferedReader(_Rejoined(head, stream))


class _Rejoined(io.RawIOBase):
    """`head`, then what is left of `stream`."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._head:
            part, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            part = self._stream.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


class _Unzstd(io.RawIOBase):
    """The content of zstd frames; unlike zstandard's own reader, it notices a frame that ends too early."""

    _CHUNK_BYTES = 1024  # a block of 4 bytes may expand to 128 KiB, so that this can become 32 MiB

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._frame = ZstdDecompressor().decompressobj()
        self._is_within_frame = False
        self._carried = b""
        self._ready = memoryview(b"")  # sliced often, never copied

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._carried or self._stream.read(self._CHUNK_BYTES)
            if not chunk:
                if self._is_within_frame:
                    raise EOFError("a zstd frame ends too early")
                return 0
            self._ready = memoryview(self._frame.decompress(chunk))
            self._is_within_frame, self._carried = not self._frame.eof, b""
            if self._frame.eof:
                self._carried = self._frame.unused_data
                self._frame = ZstdDecompressor().decompressobj()
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)
