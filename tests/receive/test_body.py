import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracegrade.receive.body import Body, BodyBounds, BodyRefusedError
from tracegrade.receive.ingest import InFlight

BOUND = 4 * 1024 * 1024


def read(*chunks: bytes, is_gzip: bool = True, bound: int = BOUND, room: int = 10 * BOUND) -> bytes:
    body = Body(BodyBounds(bound, "max"), InFlight(room), "gzip" if is_gzip else "")
    for chunk in chunks:
        body.add(chunk)
    return body.finish()


def reason(*chunks: bytes, is_gzip: bool = True, bound: int = BOUND, room: int = 10 * BOUND) -> str:
    with pytest.raises(BodyRefusedError) as caught:
        read(*chunks, is_gzip=is_gzip, bound=bound, room=room)
    return caught.value.refused.reason


@settings(max_examples=50, deadline=None)
@given(content=st.binary(max_size=500), cut=st.integers(0, 600), members=st.integers(1, 3))
def test_gzip_is_read_whatever_its_chunks_and_members(content: bytes, cut: int, members: int) -> None:
    stream = gzip.compress(content) * members
    assert read(stream[:cut], stream[cut:]) == content * members
    assert read(*(stream[index : index + 1] for index in range(len(stream)))) == content * members


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"not gzip at all",
        gzip.compress(b"x" * 1000)[:-1],
        gzip.compress(b"x" * 1000)[:15],
        gzip.compress(b"x") + b"garbage",
        gzip.compress(b"x") + gzip.compress(b"y")[:-3],
        gzip.compress(b"x" * 1000)[:-8] + bytes(8),
    ],
    ids=["empty", "no gzip", "last byte missing", "cut", "something behind", "second member cut", "wrong CRC"],
)
def test_32_broken_gzip_is_undecodable(stream: bytes) -> None:
    assert reason(stream) == "undecodable"
    half = len(stream) // 2
    assert reason(stream[:half], stream[half:]) == "undecodable"


def test_the_bound_holds_before_and_after_decompression() -> None:
    assert read(b"x" * 100, is_gzip=False, bound=100) == b"x" * 100
    assert reason(b"x" * 60, b"x" * 41, is_gzip=False, bound=100) == "too_large"
    assert read(gzip.compress(b"x" * 100), bound=100) == b"x" * 100
    assert reason(gzip.compress(b"x" * 101), bound=100) == "too_large"
    # Many small members are one body.
    assert reason(*[gzip.compress(b"x" * 60)] * 2, bound=100) == "too_large"


@pytest.mark.slow
def test_a_bomb_is_noticed_before_much_of_it_exists() -> None:
    in_flight = InFlight(10 * BOUND)
    body = Body(BodyBounds(BOUND, "max"), in_flight, "gzip")
    with pytest.raises(BodyRefusedError):
        body.add(gzip.compress(bytes(100 * BOUND), 9))
    assert in_flight.taken_bytes <= BOUND
    body.release()
    assert in_flight.taken_bytes == 0


def test_no_room_for_a_body_now_means_come_back() -> None:
    assert reason(b"x" * 101, is_gzip=False, room=100) == "overloaded"
    assert reason(gzip.compress(b"x" * 101), room=100) == "overloaded"
