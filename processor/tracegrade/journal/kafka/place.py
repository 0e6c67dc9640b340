"""A message's topic, partition and offset as one number, for what knows records by their positions in a journal."""

from typing import NamedTuple

from tracegrade.model.signal import Signal

# 64 bits: a mark that positions of a journal on disk never have, whether it is of log records, partition, offset.
_MARK = 1 << 63
_LOGS = 1 << 62
_PARTITION_AT = 46
MAX_PARTITION = (1 << (62 - _PARTITION_AT)) - 1
_OFFSETS = (1 << _PARTITION_AT) - 1


class Place(NamedTuple):
    """Where a message is."""

    signal: Signal
    partition: int
    offset: int

    def __str__(self) -> str:
        """``traces, partition 3, offset 1200``."""
        return f"{self.signal.name.lower()}, partition {self.partition}, offset {self.offset}"


def number_of(signal: Signal, partition: int, offset: int) -> int:
    """The number of a place; other places have other numbers up to partition 65,535 and offset 7e13."""
    logs = _LOGS if signal is Signal.LOGS else 0
    return _MARK | logs | (partition & MAX_PARTITION) << _PARTITION_AT | (offset & _OFFSETS)


def place_of(number: int) -> Place | None:
    """The place with this number; None if it is a position in a journal on disk."""
    if not number & _MARK:
        return None
    signal = Signal.LOGS if number & _LOGS else Signal.TRACES
    return Place(signal, number >> _PARTITION_AT & MAX_PARTITION, number & _OFFSETS)
