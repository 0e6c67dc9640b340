from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journal.conftest import entry

from build import each
from tracegrade.journal.append import Append
from tracegrade.journal.record import (
    HEADER_BYTES,
    Encoding,
    Entry,
    Header,
    Record,
    Signal,
    Unreadable,
    checked_tenant,
    decode_count,
    decode_header,
    decode_record,
    encode_head,
)

ENTRIES = st.builds(
    Entry,
    signal=st.sampled_from(Signal),
    encoding=st.sampled_from(Encoding),
    tenant=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    items=st.integers(0, 2**32 - 1),
    payload=st.binary(max_size=200),
)


def encode(entry: Entry, position: int, received_ns: int = 7) -> bytes:
    future: Any = None
    return b"".join(Append([entry], future).encode(position, received_ns))


@given(ENTRIES, st.integers(0, 2**63), st.integers(0, 2**63), st.binary(max_size=50), st.binary(max_size=50))
def test_a_record_reads_back_as_it_was_written(
    entry: Entry, position: int, received_ns: int, before: bytes, after: bytes
) -> None:
    data = encode(entry, position, received_ns)
    assert decode_record(before + data + after, len(before), position) == Record(
        position,
        position + len(data),
        received_ns,
        entry.tenant,
        entry.signal,
        entry.encoding,
        entry.items,
        entry.payload,
    )


def test_a_record_cut_anywhere_is_torn() -> None:
    data = encode(entry(), 1000)
    for length in range(len(data)):
        assert decode_record(data[:length], 0, 1000) is Unreadable.TORN, length


def test_a_record_with_any_bit_flipped_is_unreadable() -> None:
    data = encode(entry(), 1000)
    for index in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[index] ^= 1 << bit
            assert isinstance(decode_record(bytes(damaged), 0, 1000), Unreadable), (index, bit)
            in_head = index < HEADER_BYTES + len("default")
            assert (decode_count(bytes(damaged), 0, 1000) is None) == in_head, (index, bit)


def test_a_flipped_payload_leaves_the_header_readable() -> None:
    data = bytearray(encode(entry(items=12), 1000))
    data[-1] ^= 1
    header = decode_header(bytes(data), 0, 1000)
    assert isinstance(header, Header)
    assert (header.items, header.size) == (12, len(data))
    assert decode_record(bytes(data), 0, 1000) is Unreadable.CORRUPT


def test_a_record_is_not_taken_for_one_at_another_position() -> None:
    assert decode_record(encode(entry(), 1000), 0, 1001) is Unreadable.CORRUPT


@given(st.binary(max_size=200))
def test_decoding_any_bytes_never_raises(data: bytes) -> None:
    assert isinstance(decode_record(data, 0, 0), Record | Unreadable)


def test_zeros_are_corrupt() -> None:
    assert decode_header(bytes(HEADER_BYTES), 0, 0) is Unreadable.CORRUPT


@each(
    ("wrong", "message"),
    [
        (Entry(Signal.TRACES, Encoding.JSON, "t" * 1025, 1, b""), "tenant of 1025 bytes; expected at most 1024"),
        (Entry(Signal.TRACES, Encoding.JSON, "t", -1, b""), "-1 items; expected 0 to 4294967295"),
        (Entry(Signal.TRACES, Encoding.JSON, "t", 2**32, b""), "4294967296 items; expected 0 to 4294967295"),
    ],
)
def test_what_cannot_be_a_record_is_refused_before_it_is_queued(wrong: Entry, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_tenant(wrong)


def test_the_head_is_header_and_tenant() -> None:
    assert len(encode_head(entry(), b"default", 0, 0, 0)) == HEADER_BYTES + len("default")


def test_a_signal_of_a_later_version_is_unreadable_not_an_exception() -> None:
    later: Any = 99
    assert decode_record(encode(entry(signal=later), 0), 0, 0) is Unreadable.CORRUPT
