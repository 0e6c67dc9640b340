"""Divides a large request into small ones and counts its messages, so that it is never decoded as a whole.

Two bytes make an empty message, and up to 160 bytes of memory once decoded: 64 MiB of them would take 5 GB, and even
more as Python objects. A piece is a request of its own, with the resource and the scope of its items.

The three requests have the same structure: field 1 of a request has the content of one resource, field 2 of that the
content of one scope, field 2 of that is an item (a span, a log record, a metric).
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tracegrade.model.errors import NotTaken, TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.request import REQUESTS

# Requests up to this size are one piece: an SDK's usual batch, 512 spans of 1 KB, is within it. Larger ones are divided
# into pieces of about the second size. Decoding 512 KiB of the smallest messages takes 25 ms and 40 MiB.
WHOLE_BYTES = 1024 * 1024
PIECE_BYTES = 512 * 1024
# A part that cannot be divided, such as one span, and is larger than a piece, holds at most as many messages as a piece
# can. (A vector has one message for each number: 262,144 are 170 embeddings of 1,536.)
UNIT_MESSAGES = PIECE_BYTES // 2
# After the first `_FREE_PARTS`, parts of a request that are walked one by one (resources, scopes, items) must have this
# many bytes each on average: the smallest span with its ids has 30.
_BYTES_A_PART = 16
_FREE_PARTS = 1000
# The largest resource or scope that is repeated in each of its pieces. Content of a larger one is not divided.
_MAX_REPEATED_BYTES = 32 * 1024

# Fields looked at between two turns of the loop: about 20 ms.
_FIELDS_A_TURN = 50_000

LENGTH_DELIMITED = 2
_TAG_END = 1 << 32
_RESOURCE, _SCOPE, ITEMS = 0, 1, 2
CHILD = (1, 2, 2)  # the number of the field that holds the next level, by level

# A head, and the start and end of the content that follows it.
_Part: TypeAlias = tuple[bytes, int, int]
_TURN: _Part = (b"", 0, 0)
_Tables: TypeAlias = dict[int, Any]  # field number -> the same of the message in it


class WireError(TraceGradeError):
    """Bytes that are not a protobuf message."""


def parts_allowed(size: int) -> int:
    """The number of resources, scopes and items that a request or piece of `size` bytes may hold."""
    return _FREE_PARTS + size // _BYTES_A_PART


def too_many_parts(size: int) -> NotTaken:
    """The error for more parts than allowed."""
    return NotTaken(
        "too_dense",
        f"{size} bytes with more than {parts_allowed(size)} resources, scopes and items (spans, log records, metrics) "
        f"in them, the bound: {_FREE_PARTS}, and one for each {_BYTES_A_PART} bytes; nothing of use is so small",
    )


def pieces(signal: Signal, wire: bytes) -> Iterator[bytes]:
    """`wire`, a request of `signal`, as requests of about `PIECE_BYTES`, in its order; itself when it is small.

    Together they hold the same items. One item larger than a piece is a piece. An empty piece comes after many fields
    were looked at, so that the caller can do other work.

    Raises:
        NotTaken: its parts are too small, or an item holds more than `UNIT_MESSAGES` messages.
        WireError: not protobuf.
    """
    if len(wire) <= WHOLE_BYTES:
        yield wire
        return
    view = memoryview(wire)
    for head, start, end in _divided(wire, 0, len(wire), _RESOURCE, _tables(signal)):
        yield b"".join((head, view[start:end]))


def count_messages(signal: Signal, piece: bytes) -> int:
    """The number of messages, of any kind and depth, in `piece`; up to a few per cent too many.

    Raises:
        google.protobuf.message.DecodeError: not a request of `signal`.
    """
    # Parsed by a class that has only fields that are messages: without the other fields, each message has two bytes or
    # a few more.
    outline = _outline_class(signal).FromString(piece)
    outline.DiscardUnknownFields()
    size: int = outline.ByteSize()
    return size // 2


def _divided(wire: bytes, start: int, end: int, level: int, tables: _Tables) -> Iterator[_Part]:
    """The message of `level` at `start`..`end`, as several messages of that level."""
    child = CHILD[level]
    repeated: list[bytes] = []
    runs: list[
        tuple[int, int, int]
    ] = []  # neighbours that make a piece; a large one alone, with the offset where it begins
    left = parts_allowed(end - start)
    run_start = run_end = -1
    position = start
    child_tag = child << 3 | LENGTH_DELIMITED
    while position < end:
        field_start = position
        # Most fields are such a child, whose length takes one or two bytes: read here, without a call.
        if end - position > 2 and wire[position] == child_tag and wire[position + 2] < 128:
            length = wire[position + 1]
            inner = position + 2
            if length > 127:
                length += (wire[inner] - 1) << 7
                inner += 1
            position = inner + length
            is_child = True
            if position > end:
                raise _longer_than_its_message(end)
        else:
            number, kind, inner, position = read_field(wire, position, end)
            is_child = number == child and kind == LENGTH_DELIMITED
        left -= 1
        if left < 0:
            raise too_many_parts(end - start)
        if left % _FIELDS_A_TURN == 0:
            yield _TURN
        if not is_child:
            repeated.append(wire[field_start:position])
        elif position - field_start > PIECE_BYTES:
            if run_end > 0:
                runs.append((run_start, run_end, 0))
            run_start, run_end = position, -1
            runs.append((field_start, position, inner))
        elif run_end == field_start and position - run_start <= PIECE_BYTES:
            run_end = position
        else:
            if run_end > 0:
                runs.append((run_start, run_end, 0))
            run_start, run_end = field_start, position
    if run_end > 0:
        runs.append((run_start, run_end, 0))
    head = b"".join(repeated)
    if level == _RESOURCE:  # unknown fields; parsed once, as they may be malformed
        if head or not runs:
            yield head, 0, 0
        head = b""
    elif len(head) > _MAX_REPEATED_BYTES:
        yield from _refuse_dense(wire, start, end, tables)
        yield b"", start, end
        return
    elif not runs:
        yield head, 0, 0
    for run_start, run_end, inner in runs:
        if not inner:
            yield head, run_start, run_end
        elif level == ITEMS:
            yield from _refuse_dense(wire, inner, run_end, tables[child])
            yield head, run_start, run_end
        else:
            for part_head, part_start, part_end in _divided(wire, inner, run_end, level + 1, tables[child]):
                size = len(part_head) + part_end - part_start
                yield head + bytes((child_tag, *as_varint(size))) + part_head, part_start, part_end


def read_field(wire: bytes, position: int, end: int) -> tuple[int, int, int, int]:
    """The field at `position`: its number, its wire type, the start and the end of its content.

    Raises:
        WireError: no field begins there, or it does not end before `end`.
    """
    try:
        tag = wire[position]
        position += 1
        if tag > 127:
            tag, position = _varint(wire, position - 1)
        kind = tag & 7
        inner = position
        if kind == LENGTH_DELIMITED:
            length = wire[position]
            position += 1
            if length > 127:
                length, position = _varint(wire, position - 1)
            inner = position
            position += length
        elif kind == 0:
            _, position = _varint(wire, position)
        elif kind == 1:
            position += 8
        elif kind == 5:
            position += 4
        else:
            raise WireError(f"a field of wire type {kind}, which OTLP has not, at byte {position}")
    except IndexError:
        raise WireError(f"it ends within a field, at byte {len(wire)}") from None
    if position > end:
        raise _longer_than_its_message(end)
    if not 8 <= tag < _TAG_END:
        raise WireError(f"a field of number {tag >> 3}, before byte {inner}; expected 1 to 536870911")
    return tag >> 3, kind, inner, position


def _longer_than_its_message(end: int) -> WireError:
    return WireError(f"a field is longer than the message around it, which ends at byte {end}")


def _varint(wire: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = wire[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise WireError(f"a number of more than ten bytes, at byte {position}")


def as_varint(number: int) -> Iterator[int]:
    """The bytes of `number` as a varint."""
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number


def _refuse_dense(wire: bytes, start: int, end: int, tables: _Tables) -> Iterator[_Part]:
    """Refuse a large part that cannot be divided when it holds too many messages; yields empty parts."""
    size = end - start
    waiting = [(start, end, tables)]
    left = 2 * UNIT_MESSAGES
    while waiting:
        position, end, tables = waiting.pop()
        while position < end:
            number, kind, inner, position = read_field(wire, position, end)
            if kind == LENGTH_DELIMITED and position > inner and (inner_tables := tables.get(number)) is not None:
                waiting.append((inner, position, inner_tables))
            left -= 1
            if left < 0:
                raise NotTaken(
                    "too_dense",
                    f"a resource, scope or item of {size} bytes with more than {2 * UNIT_MESSAGES} messages and values "
                    f"in it, the bound for those larger than {PIECE_BYTES} bytes",
                )
            if left % _FIELDS_A_TURN == 0:
                yield _TURN


@cache
def _tables(signal: Signal) -> _Tables:
    known: dict[str, _Tables] = {}

    def of(descriptor: Any) -> _Tables:
        if descriptor.full_name not in known:
            tables = known[descriptor.full_name] = {}
            for field in descriptor.fields:
                if field.message_type is not None:
                    tables[field.number] = of(field.message_type)
        return known[descriptor.full_name]

    return of(REQUESTS[signal].DESCRIPTOR)


@cache
def _outline_class(signal: Signal) -> Any:
    """The class of `signal`'s request with only those fields that are messages."""
    request: Any = REQUESTS[signal].DESCRIPTOR
    # A separate pool: the default one has OTLP's classes under the same names.
    pool = DescriptorPool()
    added: set[str] = set()

    def add(file: Any) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for dependency in file.dependencies:
            add(dependency)
        outline = FileDescriptorProto()
        file.CopyToProto(outline)
        del outline.service[:]
        for message in outline.message_type:
            _keep_messages(message)
        pool.AddSerializedFile(outline.SerializeToString())

    add(request.file)
    return GetMessageClass(pool.FindMessageTypeByName(request.full_name))


def _keep_messages(message: DescriptorProto) -> None:
    kept = [field for field in message.field if field.type == FieldDescriptor.TYPE_MESSAGE]
    for field in kept:
        field.ClearField("oneof_index")
    del message.field[:]
    message.field.extend(kept)
    del message.oneof_decl[:]
    for nested in message.nested_type:
        _keep_messages(nested)
