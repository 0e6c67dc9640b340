"""Reading a request body: in pieces, within a bound before and after decompression."""

import zlib

from tracegrade.receive.ingest import InFlight, Refused

# Decompressed at a time, so that a bomb is noticed before much of it exists.
_STEP_BYTES = 1024 * 1024


class BodyRefusedError(Exception):
    """The body cannot be taken; ``refused`` says what to answer."""

    def __init__(self, refused: Refused) -> None:
        self.refused = refused
        super().__init__(refused.message)


class Body:
    """One body as it grows.

    Holds room in `in_flight` for what it has gathered; `release` must be called when the request is done.
    """

    def __init__(self, bound_bytes: int, in_flight: InFlight, *, gzip: bool) -> None:
        self._bound = bound_bytes
        self._in_flight = in_flight
        self._inflate = _inflater() if gzip else None
        self._received = 0
        self._size = 0
        self._parts: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        """Take the next chunk as received.

        Raises:
            BodyRefusedError: too large, not gzip where gzip was announced, or no room for it now.
        """
        self._received += len(chunk)
        if self._received > self._bound:
            raise BodyRefusedError(too_large(self._bound))
        if self._inflate is None:
            self._keep(chunk)
        else:
            self._decompress(chunk)

    def finish(self) -> bytes:
        """The whole body.

        Raises:
            BodyRefusedError: the gzip stream stops before its end.
        """
        if self._inflate is not None and not self._inflate.eof:
            raise BodyRefusedError(_bad_gzip("it ends too early"))
        body = b"".join(self._parts)
        self._parts.clear()
        return body

    def release(self) -> None:
        """Give back the room."""
        self._in_flight.give(self._size)
        self._size = 0

    def _decompress(self, data: bytes) -> None:
        while data:
            assert self._inflate is not None
            if self._inflate.eof:  # a further gzip member
                self._inflate = _inflater()
            try:
                self._keep(self._inflate.decompress(data, _STEP_BYTES))
            except zlib.error as error:
                raise BodyRefusedError(_bad_gzip(str(error))) from None
            data = self._inflate.unused_data or self._inflate.unconsumed_tail

    def _keep(self, part: bytes) -> None:
        if self._size + len(part) > self._bound:
            raise BodyRefusedError(too_large(self._bound))
        if not self._in_flight.take(len(part)):
            raise BodyRefusedError(self._in_flight.refusal())
        self._size += len(part)
        self._parts.append(part)


def too_large(bound_bytes: int) -> Refused:
    """The final refusal of a body beyond the bound."""
    return Refused(
        "too_large",
        f"the request is larger than {bound_bytes} bytes, before or after decompression; send smaller batches, "
        "or raise receivers.otlp.protocols.http.max_request_body_size_mib",
    )


def _bad_gzip(why: str) -> Refused:
    return Refused("undecodable", f"Content-Encoding says gzip, but the body is not: {why}")


def _inflater() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
