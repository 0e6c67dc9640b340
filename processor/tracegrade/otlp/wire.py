"""The fields of requests as bytes, without decoding what is in them; for bytes that were parsed before.

The requests of traces and logs have the same structure: field `RESOURCES` of a request has the content of one resource,
field `SCOPES` of that the content of one scope, field `ITEMS` of that is a span or a log record.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tracegrade.model.signal import Signal

RESOURCES = 1
SCOPES = 2
ITEMS = 2
TRACE_ID = {Signal.TRACES: 1, Signal.LOGS: 9}  # in a span, in a log record

_VARINT, _FIXED64, BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)


class Field(NamedTuple):
    """Where a field of a message stands: its tag, its value (of bytes: without their length), and what follows."""

    number: int
    wire_type: int
    tag: int
    tag_end: int
    value: int
    end: int


def fields(data: bytes, at: int, end: int, number: int) -> Iterator[Field]:
    """The fields of bytes with that number, of the message at ``data[at:end]``, which is known to be well formed."""
    while at < end:
        field = field_at(data, at)
        if field.number == number and field.wire_type == BYTES:
            yield field
        at = field.end


def trace_id_of(data: bytes, item: Field, id_field: int) -> bytes:
    """The trace id of a span or log record; empty when it has none. `id_field` is of `TRACE_ID`."""
    found = b""
    for field in fields(data, item.value, item.end, id_field):
        found = data[field.value : field.end]  # of several the last one counts
    return found


def field_at(data: bytes, at: int) -> Field:
    """The field that begins at `at`; a group with all that is in it.

    Raises:
        ValueError: no message was parsed from these bytes.
    """
    tag = data[at]
    if tag & 0x87 == BYTES:  # most: of bytes, with a number below 16
        length, value = data[at + 1], at + 2
        if length >= 0x80:
            length, value = _varint(data, at + 1)
        return Field(tag >> 3, BYTES, at, at + 1, value, value + length)
    tag, tag_end = _varint(data, at)
    number, wire_type = tag >> 3, tag & 7
    value = tag_end
    if wire_type == _VARINT:
        _, end = _varint(data, value)
    elif wire_type == _FIXED64:
        end = value + 8
    elif wire_type == _FIXED32:
        end = value + 4
    elif wire_type == BYTES:
        length, value = _varint(data, value)
        end = value + length
    elif wire_type == _GROUP:
        inner = field_at(data, value)
        while inner.wire_type != _GROUP_END:
            inner = field_at(data, inner.end)
        end = inner.end
    elif wire_type == _GROUP_END:
        end = value
    else:
        raise ValueError(f"wire type {wire_type} at byte {at}; expected 0 to 5: the request was parsed before")
    return Field(number, wire_type, at, tag_end, value, end)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
