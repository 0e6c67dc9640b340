"""Reading a request body: in pieces, within bounds before and after decompression."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from zstandard import ZstdDecompressor, ZstdError

from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.receive.ingest import InFlight, Refused

# Decompressed at a time, so that a bomb is noticed before much of it exists.
_STEP_BYTES = 1024 * 1024


class BodyRefusedError(Exception):
    """The body cannot be taken; ``refused`` says what to answer."""

    def __init__(self, refused: Refused) -> None:
        self.refused = refused
        super().__init__(refused.message)


Compression: TypeAlias = Literal["", "gzip", "deflate", "zstd"]

# Of gzip members, zlib streams and zstd frames: honest senders have one, and each costs more than its bytes.
_MOST_STREAMS = 100
# Four bytes of zstd may become 128 KiB, and nothing but its input bounds how much it gives at a time.
_ZSTD_STEP_BYTES = 256
_ZSTD_WINDOW_BYTES = 32 * 1024**2  # the largest that levels 1 to 19 and Go's encoder ask for

# What is smaller may be compressed as far as it can be.
_FREE_BYTES = 512 * 1024
# Compressed further, and larger, a body is checked in turns with others: agents' traces are some 5 to 20 to 1.
_MUCH_EXPANDED = 50
_LITTLE_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The bounds of a body.

    ``max_bytes`` before and after decompression, by the setting named ``setting``; ``max_ratio`` between the two; and
    ``within_s``, the seconds in which it arrives.
    """

    max_bytes: int
    setting: str
    max_ratio: int = 200
    within_s: float = 30.0


class Body:
    """One body as it grows.

    Holds room in `in_flight` for what it has gathered; `release` must be called when the request is done.
    """

    def __init__(
        self, bounds: BodyBounds, in_flight: InFlight, compression: Compression, tenant: str = DEFAULT_TENANT
    ) -> None:
        self._bounds = bounds
        self._in_flight = in_flight
        self._tenant = tenant
        self._compression = compression
        self._stream = _STREAMS[compression]() if compression else None
        self._streams = 1
        self._received = 0
        self._size = 0
        self._parts: list[bytes] = []

    @property
    def is_much_expanded(self) -> bool:
        """Whether it was much smaller before decompression."""
        return self._size > _LITTLE_BYTES and self._size > _MUCH_EXPANDED * self._received

    def add(self, chunk: bytes) -> None:
        """Take the next chunk as received.

        Raises:
            BodyRefusedError: too large, compressed too far, not what was announced, or no room for it now.
        """
        self._received += len(chunk)
        if self._received > self._bounds.max_bytes:
            raise BodyRefusedError(too_large(self._bounds))
        if self._stream is None:
            self._keep(chunk)
        else:
            self._decompress(chunk)

    def finish(self) -> bytes:
        """The whole body.

        Raises:
            BodyRefusedError: the compressed stream stops before its end.
        """
        if self._stream is not None and not self._stream.is_done:
            raise BodyRefusedError(self._not_as_announced("it ends too early"))
        body = b"".join(self._parts)
        self._parts.clear()
        return body

    def release(self) -> None:
        """Release the memory that was reserved."""
        self._in_flight.give(self._size, self._tenant)
        self._size = 0

    def _decompress(self, data: bytes) -> None:
        assert self._compression
        left = memoryview(data)
        while left:
            assert self._stream is not None
            if self._stream.is_done:  # a further gzip member, zlib stream or zstd frame
                self._streams += 1
                if self._streams > _MOST_STREAMS:
                    raise BodyRefusedError(_too_many_streams(self._compression))
                self._stream = _STREAMS[self._compression]()
            try:
                part, used = self._stream.decompress(left)
            except (zlib.error, ZstdError) as error:
                raise BodyRefusedError(self._not_as_announced(str(error))) from None
            self._keep(part)
            left = left[used:]

    def _keep(self, part: bytes) -> None:
        size = self._size + len(part)
        if size > self._bounds.max_bytes:
            raise BodyRefusedError(too_large(self._bounds))
        if self._stream is not None and size > max(_FREE_BYTES, self._bounds.max_ratio * self._received):
            raise BodyRefusedError(_compressed_too_far(size, self._received, self._bounds.max_ratio))
        if not self._in_flight.take(len(part), self._tenant):
            raise BodyRefusedError(self._in_flight.refusal())
        self._size = size
        self._parts.append(part)

    def _not_as_announced(self, why: str) -> Refused:
        return Refused("undecodable", f"Content-Encoding says {self._compression}, but the body is not: {why}")


def too_large(bounds: BodyBounds) -> Refused:
    """The final refusal of a body beyond the bound."""
    return Refused(
        "too_large",
        f"the request is larger than {bounds.max_bytes} bytes, before or after decompression; send smaller batches, "
        f"or raise {bounds.setting}",
    )


def _compressed_too_far(size: int, received: int, max_ratio: int) -> Refused:
    return Refused(
        "too_compressed",
        f"{received} bytes became more than {size} by decompression: more than {max_ratio} to 1, the bound "
        "receivers.otlp.max_compression_ratio for what is larger than 512 KiB; send it less compressed, or raise it",
    )


def _too_many_streams(compression: Compression) -> Refused:
    return Refused(
        "too_dense",
        f"the body has more than {_MOST_STREAMS} {_STREAM_NAMES[compression]}, one behind the other; send one",
    )


_STREAM_NAMES: dict[Compression, str] = {"gzip": "gzip members", "deflate": "zlib streams", "zstd": "zstd frames"}


class _Stream(Protocol):
    """One compressed stream: a gzip member, a zlib stream or a zstd frame."""

    @property
    def is_done(self) -> bool:
        """Whether its end was read."""

    def decompress(self, data: memoryview) -> tuple[bytes, int]:
        """Decompress some of `data`; what it gives, at most a few MiB, and how much of `data` that was."""


class _Zlib:
    def __init__(self, wbits: int) -> None:
        self._inflate = zlib.decompressobj(wbits)

    @property
    def is_done(self) -> bool:
        return self._inflate.eof

    def decompress(self, data: memoryview) -> tuple[bytes, int]:
        part = self._inflate.decompress(data, _STEP_BYTES)
        return part, len(data) - len(self._inflate.unused_data or self._inflate.unconsumed_tail)


class _Zstd:
    def __init__(self) -> None:
        self._frame = ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()

    @property
    def is_done(self) -> bool:
        return self._frame.eof

    def decompress(self, data: memoryview) -> tuple[bytes, int]:
        step = data[:_ZSTD_STEP_BYTES]
        part = self._frame.decompress(step)
        return part, len(step) - len(self._frame.unused_data)


_STREAMS: dict[Compression, Callable[[], _Stream]] = {
    "gzip": lambda: _Zlib(zlib.MAX_WBITS + 16),
    "deflate": lambda: _Zlib(zlib.MAX_WBITS),
    "zstd": _Zstd,
}
