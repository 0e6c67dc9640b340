"""Places of messages as numbers."""

from hypothesis import given
from hypothesis import strategies as st

from tracegrade.journal.kafka.place import MAX_PARTITION, number_of, place_of
from tracegrade.model.signal import Signal


@given(st.sampled_from([Signal.TRACES, Signal.LOGS]), st.integers(0, MAX_PARTITION), st.integers(0, 2**46 - 1))
def test_a_place_is_read_back_from_its_number(signal: Signal, partition: int, offset: int) -> None:
    number = number_of(signal, partition, offset)
    assert number < 2**64 - 1
    assert place_of(number) == (signal, partition, offset)


def test_a_position_on_disk_is_no_place() -> None:
    assert place_of(2**60) is None
