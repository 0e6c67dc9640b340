import gzip
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from build import each
from tracegrade.receive.body import Body, BodyBounds, BodyRefusedError, Compression
from tracegrade.receive.ingest import InFlight

BOUND = 4 * 1024 * 1024


PACK: dict[Compression, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}


def read(*chunks: bytes, compression: Compression = "gzip", bound: int = BOUND, room: int = 10 * BOUND) -> bytes:
    body = Body(BodyBounds(bound, "max"), InFlight(room), compression)
    for chunk in chunks:
        body.add(chunk)
    return body.finish()


def reason(*chunks: bytes, compression: Compression = "gzip", bound: int = BOUND, room: int = 10 * BOUND) -> str:
    with pytest.raises(BodyRefusedError) as caught:
        read(*chunks, compression=compression, bound=bound, room=room)
    return caught.value.refused.reason


@given(
    compression=st.sampled_from(list(PACK)),
    content=st.binary(max_size=500),
    cut=st.integers(0, 600),
    streams=st.integers(1, 3),
)
def test_what_is_compressed_is_read_whatever_its_chunks_and_streams(
    compression: Compression, content: bytes, cut: int, streams: int
) -> None:
    body = PACK[compression](content) * streams
    assert read(body[:cut], body[cut:], compression=compression) == content * streams
    assert read(*(body[index : index + 1] for index in range(len(body))), compression=compression) == content * streams


@each("compression", PACK)
@each("content", [b"", b"x" * 60])
def test_streams_behind_one_another_are_bounded(compression: Compression, content: bytes) -> None:
    one = PACK[compression](content)
    assert read(one * 100, compression=compression) == content * 100
    assert reason(one * 101, compression=compression) == "too_dense"
    assert reason(*[one] * 101, compression=compression) == "too_dense"


@each("compression", PACK)
def test_32_what_is_not_compressed_as_announced_is_undecodable(compression: Compression) -> None:
    pack = PACK[compression]
    whole = pack(b"x" * 1000)
    broken = {
        "empty": b"",
        "something else": b"not compressed at all",
        "last byte missing": whole[:-1],
        "cut": whole[:15],
        "something behind": pack(b"x") + b"garbage",
        "second stream cut": pack(b"x") + pack(b"y")[:-3],
    }
    if compression != "zstd":  # whose checksum is optional
        broken["wrong checksum"] = whole[:-4] + bytes(4)
    found = {
        name: (reason(body, compression=compression), reason(body[:9], body[9:], compression=compression))
        for name, body in broken.items()
    }
    assert found == dict.fromkeys(broken, ("undecodable", "undecodable"))


def test_the_bound_holds_before_and_after_decompression() -> None:
    assert read(b"x" * 100, compression="", bound=100) == b"x" * 100
    assert reason(b"x" * 60, b"x" * 41, compression="", bound=100) == "too_large"
    assert read(gzip.compress(b"x" * 100), bound=100) == b"x" * 100
    assert reason(gzip.compress(b"x" * 101), bound=100) == "too_large"
    # Many small members are one body.
    assert reason(*[gzip.compress(b"x" * 60)] * 2, bound=100) == "too_large"


@each("compression", PACK)
def test_a_bomb_is_noticed_before_much_of_it_exists(compression: Compression, peak_memory: Any) -> None:
    bomb = PACK[compression](bytes(20 * BOUND))
    in_flight = InFlight(10 * BOUND)
    body = Body(BodyBounds(BOUND, "max"), in_flight, compression)
    peak = peak_memory()
    with pytest.raises(BodyRefusedError):
        body.add(bomb)
    assert peak.growth_mib() < 32
    assert in_flight.taken_bytes <= BOUND
    body.release()
    assert in_flight.taken_bytes == 0


def test_no_room_for_a_body_now_means_come_back() -> None:
    assert reason(b"x" * 101, compression="", room=100) == "overloaded"
    assert reason(gzip.compress(b"x" * 101), room=100) == "overloaded"
