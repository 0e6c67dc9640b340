"""Requests of as many messages as their bytes can hold: one for every list of messages anywhere in OTLP's requests."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tracegrade.model.signal import Signal
from tracegrade.otlp.request import REQUESTS


@dataclass(frozen=True, slots=True)
class Dense:
    """A list of messages: the field numbers that lead to it, itself last."""

    signal: Signal
    name: str
    numbers: tuple[int, ...]

    def request(self, size: int) -> bytes:
        """A request of about `size` bytes, nearly all of them empty members of this list."""
        *around, last = self.numbers
        content = bytes([last << 3 | 2, 0]) * (size // 2)
        for number in reversed(around):
            content = field(number, content)
        return content


def field(number: int, content: bytes) -> bytes:
    """`content` as a length-delimited field."""
    length, varint = len(content), bytearray()
    while length > 127:
        varint.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *varint, length]) + content


def all_dense() -> list[Dense]:
    """Every list of messages of the three requests, those in values once for each list of attributes."""
    return [dense for signal in REQUESTS for dense in _lists(signal, REQUESTS[signal].DESCRIPTOR, "", (), ())]


def _lists(signal: Signal, message: Any, name: str, numbers: tuple[int, ...], seen: tuple[str, ...]) -> Iterator[Dense]:
    for described in message.fields:
        inner = described.message_type
        if inner is None or seen.count(inner.full_name) > 1:  # AnyValue holds itself
            continue
        path, inner_name = (*numbers, described.number), f"{name}.{described.name}".lstrip(".")
        if described.is_repeated:
            yield Dense(signal, inner_name, path)
        yield from _lists(signal, inner, inner_name, path, (*seen, inner.full_name))
