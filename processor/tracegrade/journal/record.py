"""Journal records and their bytes.

A record is a fixed header, the tenant's name in UTF-8 and the payload, nothing between records. The header's checksum
covers the header and the tenant, the payload has its own: headers can be trusted, and items counted, without reading
payloads. The header names the record's position, so that bytes of other records (inside a payload, or left by a
failed write) are not mistaken for it.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum
from struct import Struct
from zlib import crc32

from tracegrade.model.signal import Signal as Signal  # part of every entry, so readers find it here too


class Encoding(IntEnum):
    """The encoding of the request; the payload of an OTLP signal is always protobuf."""

    PROTOBUF = 1
    JSON = 2
    READ_AGAIN = 3  # protobuf that was set aside and comes again, only for the judge: it was forwarded when it came


@dataclass(slots=True)
class Entry:
    """An entry to append. ``items`` counts the payload's spans, log records, data points or results."""

    signal: Signal
    encoding: Encoding
    tenant: str
    items: int
    payload: bytes


@dataclass(slots=True)
class Record:
    """A record that was read: an entry with its position and its receive time.

    ``position`` and ``end`` are the global byte offsets of its first byte and of the byte after it: reading goes on
    at ``end``. ``received_ns`` is ns since 1970 UTC and never decreases along the journal. ``place`` is the number of
    its place where that is not the position: in a topic of Kafka.
    """

    position: int
    end: int
    received_ns: int
    tenant: str
    signal: Signal
    encoding: Encoding
    items: int
    payload: bytes
    place: int | None = None

    @property
    def known_as(self) -> int:
        """Stable number by which it is suspected and set aside."""
        return self.position if self.place is None else self.place


class Unreadable(Enum):
    """Why there is no record: its bytes end too early, or are not the written ones."""

    TORN = "torn"
    CORRUPT = "corrupt"


@dataclass(slots=True)
class Header:
    """A verified header: all of a record but its payload, which it can verify in turn."""

    position: int
    received_ns: int
    tenant: str
    signal: Signal
    encoding: Encoding
    items: int
    head_length: int
    payload_length: int
    payload_crc: int

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return self.head_length + self.payload_length


MAGIC = b"TGJ1"
MAX_TENANT_BYTES = 1024
MAX_PAYLOAD_BYTES = 2**31
MAX_ITEMS = 2**32 - 1

_PREFIX = Struct("<4sI")  # magic, checksum of the body and the tenant
_BODY = Struct(
    "<IIIHBBQQ"
)  # payload length, payload crc, items, tenant length, signal, encoding, position, received_ns
_COUNT = Struct("<4sII4xIHBxQ8x")  # both, without what is not needed for counting
HEADER_BYTES = _PREFIX.size + _BODY.size
_SIGNALS = {int(signal): signal for signal in Signal}
_ENCODINGS = {int(encoding): encoding for encoding in Encoding}


def checked_tenant(entry: Entry) -> bytes:
    """The entry's tenant as bytes.

    Raises:
        ValueError: the entry cannot be a record: the tenant or the payload is too long, or the count no count.
    """
    tenant = entry.tenant.encode()
    if len(tenant) > MAX_TENANT_BYTES:
        raise ValueError(f"tenant of {len(tenant)} bytes; expected at most {MAX_TENANT_BYTES}")
    if len(entry.payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"payload of {len(entry.payload)} bytes; expected at most {MAX_PAYLOAD_BYTES}")
    if not 0 <= entry.items <= MAX_ITEMS:
        raise ValueError(f"{entry.items} items; expected 0 to {MAX_ITEMS}")
    return tenant


def encode_head(entry: Entry, tenant: bytes, payload_crc: int, position: int, received_ns: int) -> bytes:
    """Header and tenant of the record that `entry` becomes at `position`; its payload follows as it is."""
    body = (
        _BODY.pack(
            len(entry.payload),
            payload_crc,
            entry.items,
            len(tenant),
            entry.signal,
            entry.encoding,
            position,
            received_ns,
        )
        + tenant
    )
    return _PREFIX.pack(MAGIC, crc32(body)) + body


def decode_header(data: bytes, offset: int, position: int) -> Header | Unreadable:
    """The header at ``data[offset:]``, which should be that of the record at `position`.

    Returns:
        TORN when `data` stops before the header (with its tenant) does, CORRUPT when it is not that record's header.
    """
    if len(data) - offset < HEADER_BYTES:
        return Unreadable.TORN if data.startswith(MAGIC[: len(data) - offset], offset) else Unreadable.CORRUPT
    magic, crc = _PREFIX.unpack_from(data, offset)
    body_at = offset + _PREFIX.size
    payload_length, payload_crc, items, tenant_length, signal, encoding, found_position, received_ns = (
        _BODY.unpack_from(data, body_at)
    )
    if magic != MAGIC or found_position != position or tenant_length > MAX_TENANT_BYTES:
        return Unreadable.CORRUPT
    head_end = offset + HEADER_BYTES + tenant_length
    if head_end > len(data):
        return Unreadable.TORN
    if crc32(data[body_at:head_end]) != crc or signal not in _SIGNALS or encoding not in _ENCODINGS:
        return Unreadable.CORRUPT
    return Header(
        position,
        received_ns,
        data[offset + HEADER_BYTES : head_end].decode(),
        _SIGNALS[signal],
        _ENCODINGS[encoding],
        items,
        head_end - offset,
        payload_length,
        payload_crc,
    )


def decode_count(data: bytes, offset: int, position: int) -> tuple[int, Signal, int] | None:
    """Size, signal and items of the record that should stand at ``data[offset:]``; None unless its header is intact.

    What counting many records needs of `decode_header`, in a fifth of its time.
    """
    if len(data) - offset < HEADER_BYTES:
        return None
    magic, crc, payload_length, items, tenant_length, signal, found_position = _COUNT.unpack_from(data, offset)
    head_end = offset + HEADER_BYTES + tenant_length
    if magic != MAGIC or found_position != position or crc32(data[offset + _PREFIX.size : head_end]) != crc:
        return None
    return HEADER_BYTES + tenant_length + payload_length, _SIGNALS[signal], items


def decode_record(data: bytes, offset: int, position: int) -> Record | Unreadable:
    """The record at ``data[offset:]``, which should be the one at `position`; TORN or CORRUPT as for its header."""
    header = decode_header(data, offset, position)
    if isinstance(header, Unreadable):
        return header
    payload_at = offset + header.head_length
    payload_end = payload_at + header.payload_length
    if payload_end > len(data):
        return Unreadable.TORN
    payload = data[payload_at:payload_end]
    if crc32(payload) != header.payload_crc:
        return Unreadable.CORRUPT
    return Record(
        position,
        position + header.size,
        header.received_ns,
        header.tenant,
        header.signal,
        header.encoding,
        header.items,
        payload,
    )
