from hypothesis import given
from hypothesis import strategies as st

from tracegrade.journal import slots

NUMBERS = st.tuples(*[st.integers(0, 2**64 - 1)] * 3)


def write(data: bytearray, sequence: int, numbers: slots.Numbers, kept: int | None = None) -> None:
    offset, slot = slots.pack(sequence, numbers)
    data[offset : offset + len(slot[:kept])] = slot[:kept]


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_the_last_numbers_written_are_read(written: list[slots.Numbers]) -> None:
    data = bytearray(slots.FILE_BYTES)
    for sequence, numbers in enumerate(written, start=1):
        write(data, sequence, numbers)
    assert slots.newest(bytes(data)) == (len(written), written[-1])


def test_a_slot_half_written_leaves_the_numbers_before_it() -> None:
    for kept in range(len(slots.pack(3, (8, 8, 8))[1])):
        data = bytearray(slots.FILE_BYTES)
        write(data, 1, (5, 5, 5))
        write(data, 2, (6, 6, 6))
        write(data, 3, (8, 8, 8), kept)
        # Bytes that the two slots have in common may make the cut slot whole again, never anything else.
        assert slots.newest(bytes(data)) in [(2, (6, 6, 6)), (3, (8, 8, 8))], kept


def test_nothing_valid_is_none() -> None:
    assert slots.newest(b"") is None
    assert slots.newest(bytes(slots.FILE_BYTES)) is None
    assert slots.newest(b"x" * slots.FILE_BYTES) is None
