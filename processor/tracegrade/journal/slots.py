"""A few numbers in a file that one process overwrites and others read: two checksummed slots, written in turns.

A reader takes the valid slot with the higher sequence. A slot half written (seen by a reader, or left by a kill) fails
its checksum, and the other one still holds the numbers before it.
"""

from struct import Struct
from zlib import crc32

Numbers = tuple[int, int, int]

SLOT_BYTES = 64
FILE_BYTES = 2 * SLOT_BYTES

_MAGIC = 0x5447534C
_SLOT = Struct("<II4Q")  # magic, crc of what follows, sequence, three numbers
_BODY = Struct("<4Q")


def pack(sequence: int, numbers: Numbers) -> tuple[int, bytes]:
    """The offset of the slot of `sequence` in the file, and its bytes."""
    body = _BODY.pack(sequence, *numbers)
    return (sequence % 2) * SLOT_BYTES, _SLOT.pack(_MAGIC, crc32(body), sequence, *numbers)


def newest(data: bytes) -> tuple[int, Numbers] | None:
    """Sequence and numbers of the newest valid slot; None when neither is valid."""
    found = [slot for offset in (0, SLOT_BYTES) if (slot := _unpack(data, offset)) is not None]
    return max(found) if found else None


def _unpack(data: bytes, offset: int) -> tuple[int, Numbers] | None:
    if len(data) < offset + _SLOT.size:
        return None
    magic, crc, sequence, *numbers = _SLOT.unpack_from(data, offset)
    if magic != _MAGIC or crc32(data[offset + 8 : offset + _SLOT.size]) != crc:
        return None
    return sequence, (numbers[0], numbers[1], numbers[2])
