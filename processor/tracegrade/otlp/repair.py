"""Repairs a request that protobuf does not parse: texts that are not UTF-8, and items whose bytes are damaged.

Works on the bytes: only what was repaired or dropped changes, and unknown fields stay where they are. A request that
parses needs none of it, and costs nothing.
"""

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from tracegrade.model.errors import NotTaken
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import MAX_NESTING, MAX_PROBLEMS
from tracegrade.otlp.pieces import (
    CHILD,
    ITEMS,
    LENGTH_DELIMITED,
    PIECE_BYTES,
    WireError,
    as_varint,
    parts_allowed,
    read_field,
    too_many_parts,
)
from tracegrade.otlp.request import ITEM_NAMES, REQUESTS
from tracegrade.otlp.service import service_of_resource
from tracegrade.otlp.wire import RESOURCES, fields

MAX_FIELDS = 4_000_000
"""Fields that are looked at in one request: some seconds, in turns."""

_FIELDS_A_TURN = 10_000  # about 15 ms
_Result = TypeVar("_Result")
_SPAN_ID = {Signal.TRACES: 2, Signal.LOGS: 10}  # in a span, in a log record


@dataclass(slots=True)
class Repaired:
    """A request after its repair.

    ``payload`` is its protobuf. ``texts`` counts repaired texts by the service whose resource they belong to (""
    without a name), and ``first`` is the place of the first one. ``dropped`` items could not be read at all and are not
    in the payload; ``problems`` describes the first few.
    """

    payload: bytes
    texts: Counter[str] = field(default_factory=Counter)
    first: str = ""
    dropped: int = 0
    problems: list[str] = field(default_factory=list)


def repaired(signal: Signal, wire: bytes) -> Repaired:
    """`repair`, at once."""
    return finished(repair(signal, wire))


def finished(turns: Generator[None, None, _Result]) -> _Result:
    """The result of work that is done in turns, without a pause between them."""
    while True:
        try:
            next(turns)
        except StopIteration as done:
            result: _Result = done.value
            return result


def repair(signal: Signal, wire: bytes, max_fields: int = MAX_FIELDS) -> Generator[None, None, Repaired]:
    """Repair a request of `signal` that protobuf does not parse; yields about every 15 ms.

    Each invalid part of a text becomes U+FFFD. An item with damaged bytes is dropped, and with a damaged resource or
    scope the items in it. Where the fields around items are damaged, what follows in the same message is dropped, and
    counts as one item.

    Raises:
        NotTaken: more than `max_fields` fields, or more parts than its size allows.
        WireError: no item is left, and the fields around items are damaged: this is not such a request.
    """
    walk = _Walk(signal, wire, max_fields)
    yield from walk.container(0, len(wire), 0, _table(REQUESTS[signal].DESCRIPTOR))
    if walk.torn is not None and walk.kept == 0:
        raise walk.torn
    found = walk.found
    found.payload = yield from _edited_in_turns(wire, walk.edits)
    for resource, texts in zip(fields(found.payload, 0, len(found.payload), RESOURCES), walk.texts_in, strict=True):
        if texts:
            found.texts[service_of_resource(found.payload, resource)] += texts
    return found


@dataclass(slots=True)
class _Entry:
    """A field whose value is a text (``table`` is None) or a message."""

    name: str
    table: "_Table | None" = None
    message: Any = None


@dataclass(slots=True)
class _Table:
    """The fields of a message type that can hold texts."""

    by_number: dict[int, _Entry] = field(default_factory=dict)


@dataclass(slots=True)
class _Open:
    """A message that is being read: up to where, and by how much its size has changed."""

    position: int
    end: int
    table: _Table
    field_start: int
    inner: int
    number: int
    name: str
    change: int = 0


class _Walk:
    """One request: what to replace in it, and what was found.

    ``edits`` are stretches of bytes with what takes their place; they do not overlap, and have no order.
    """

    def __init__(self, signal: Signal, wire: bytes, max_fields: int) -> None:
        self.edits: list[tuple[int, int, bytes]] = []
        self.found = Repaired(wire)
        self.kept = 0
        self.torn: WireError | None = None
        self.texts_in: list[int] = []  # of each resource that is kept, in order
        self._texts = 0  # up to now, also of what was dropped later
        self._signal = signal
        self._wire = wire
        self._max_fields = max_fields
        self._fields = 0
        self._parts = parts_allowed(len(wire))

    def container(self, start: int, end: int, level: int, table: _Table) -> Generator[None, None, int | None]:
        """Go through the request, a resource or a scope with its items; the change of its size, None to drop it."""
        wire, position, change, is_sound = self._wire, start, 0, True
        while position < end:
            if self._is_turn():
                yield
            field_start = position
            try:
                number, kind, inner, position = read_field(wire, position, end)
            except WireError as error:
                self.torn = self.torn or error
                self._drop(field_start, end, 1, f"{_NAMES[level]} from byte {field_start} on: {error}")
                return change - (end - field_start) if is_sound else None
            entry = table.by_number.get(number) if kind == LENGTH_DELIMITED else None
            if entry is None:
                continue
            if number != CHILD[level]:
                part = yield from self._unit(entry, number, field_start, inner, position)
                is_sound = is_sound and part is not None
                change += part or 0
                continue
            self._parts -= 1
            if self._parts < 0:
                raise too_many_parts(len(wire))
            change += yield from self._child(entry, number, field_start, inner, position, level)
        return change if is_sound else None

    def _child(
        self, entry: _Entry, number: int, field_start: int, inner: int, end: int, level: int
    ) -> Generator[None, None, int]:
        """Go through a resource, scope or item, and drop it if it is damaged; the change of the size around it."""
        mark, kept, texts, first = len(self.edits), self.kept, self._texts, self.found.first
        if level == ITEMS:
            change = yield from self._unit(entry, number, field_start, inner, end, is_item=True)
            self.kept += 1
        else:
            assert entry.table is not None
            change = yield from self.container(inner, end, level + 1, entry.table)
            if change is not None:
                change += self._resize(number, field_start, inner, end, change)
        if change is None:
            del self.edits[mark:]
            self._texts, self.found.first = texts, first
            self._drop(field_start, end, self.kept - kept)
            self.kept = kept
            return field_start - end
        if level == 0:
            self.texts_in.append(self._texts - texts)
        return change

    def _unit(
        self, entry: _Entry, number: int, field_start: int, inner: int, end: int, *, is_item: bool = False
    ) -> Generator[None, None, int | None]:
        """Repair an item, a resource, a scope or a text; the change of the size around it, None when it is damaged."""
        if entry.table is None:
            return self._repair_text(number, field_start, inner, end, entry.name)
        is_small = end - inner <= PIECE_BYTES  # a larger one may take far more memory once decoded
        if is_small and self._parses(entry, self._wire[inner:end]):
            return 0
        name = self._item_name(inner, end) if is_item else entry.name
        mark = len(self.edits)
        try:
            change = yield from self._repair(entry, number, field_start, inner, end, name)
        except WireError as error:
            self._describe(f"{name}: {error}")
            return None
        within = [edit for edit in self.edits[mark:] if edit[0] >= inner]
        if is_small and not self._parses(entry, _edited(self._wire, inner, end, within)):
            self._describe(f"{name}: not protobuf")
            return None
        return change

    def _parses(self, entry: _Entry, part: bytes) -> bool:
        try:
            entry.message.FromString(part)
        except DecodeError:
            return False
        return True

    def _repair(
        self, entry: _Entry, number: int, field_start: int, inner: int, end: int, name: str
    ) -> Generator[None, None, int]:
        """Repair the texts of one message, at any depth; the change of the size around it."""
        assert entry.table is not None
        wire = self._wire
        open_ = [_Open(inner, end, entry.table, field_start, inner, number, name)]
        while True:
            at = open_[-1]
            while at.position < at.end:
                if self._is_turn():
                    yield
                start = at.position
                number, kind, inner, at.position = read_field(wire, start, at.end)
                found = at.table.by_number.get(number) if kind == LENGTH_DELIMITED else None
                if found is None:
                    continue
                if found.table is None:
                    if not wire[inner : at.position].isascii():
                        place = f"{name}: {'.'.join([*(each.name for each in open_[1:]), found.name])}"
                        at.change += self._repair_text(number, start, inner, at.position, place)
                    continue
                if len(open_) > MAX_NESTING:
                    raise WireError(f"nested more than {MAX_NESTING} messages deep")
                open_.append(_Open(inner, at.position, found.table, start, inner, number, found.name))
                break
            else:
                change = at.change + self._resize(at.number, at.field_start, at.inner, at.end, at.change)
                open_.pop()
                if not open_:
                    return change
                open_[-1].change += change

    def _repair_text(self, number: int, field_start: int, inner: int, end: int, place: str) -> int:
        """Repair a text; the change of the size around it."""
        text = self._wire[inner:end]
        try:
            text.decode()
        except UnicodeDecodeError:
            pass
        else:
            return 0
        self._texts += 1
        self.found.first = self.found.first or place
        text = text.decode("utf-8", "replace").encode()
        value = _head(number, len(text)) + text
        self.edits.append((field_start, end, value))
        return len(value) - (end - field_start)

    def _resize(self, number: int, field_start: int, inner: int, end: int, change: int) -> int:
        """Write the length of a message whose size changes by `change`; the change of the head itself."""
        if change == 0:
            return 0
        head = _head(number, end - inner + change)
        self.edits.append((field_start, inner, head))
        return len(head) - (inner - field_start)

    def _drop(self, start: int, end: int, items: int, problem: str = "") -> None:
        self.edits.append((start, end, b""))
        self.found.dropped += items
        if problem:
            self._describe(problem)

    def _describe(self, problem: str) -> None:
        if len(self.found.problems) < MAX_PROBLEMS:
            self.found.problems.append(problem)

    def _item_name(self, inner: int, end: int) -> str:
        """The name of a span or log record: its id, as far as it can be read."""
        position, id_field = inner, _SPAN_ID.get(self._signal)
        name = ITEM_NAMES[self._signal]
        try:
            for _ in range(16):  # the id is among the first fields
                if position >= end:
                    break
                number, kind, start, position = read_field(self._wire, position, end)
                if number == id_field and kind == LENGTH_DELIMITED:
                    return f"{name} {self._wire[start:position][:8].hex()}"
        except WireError:
            pass
        return name

    def _is_turn(self) -> bool:
        """Count a field; whether others should have a turn before it is read."""
        self._fields += 1
        if self._fields > self._max_fields:
            raise NotTaken(
                "too_dense",
                f"the request, whose bytes are damaged or hold text that is not UTF-8, has more than "
                f"{self._max_fields} fields, the bound for such; send smaller batches",
            )
        return self._fields % _FIELDS_A_TURN == 0


_NAMES = ("the request", "a resource with its items", "a scope with its items")


def _head(number: int, length: int) -> bytes:
    return bytes((*as_varint(number << 3 | LENGTH_DELIMITED), *as_varint(length)))


def _edited(wire: bytes, start: int, end: int, edits: list[tuple[int, int, bytes]]) -> bytes:
    """The bytes from `start` to `end`, with all `edits`, which are within."""
    view = memoryview(wire)
    parts: list[bytes | memoryview] = []
    for edit_start, edit_end, value in sorted(edits):
        parts += view[start:edit_start], value
        start = edit_end
    return b"".join((*parts, view[start:end]))


def _edited_in_turns(wire: bytes, edits: list[tuple[int, int, bytes]]) -> Generator[None, None, bytes]:
    """`wire` with all `edits`; yields between some thousands of them."""
    yield
    edits.sort()
    pieces, done = [], 0
    for first in range(0, len(edits), _FIELDS_A_TURN):
        yield
        some = edits[first : first + _FIELDS_A_TURN]
        pieces.append(_edited(wire, done, some[-1][1], some))
        done = some[-1][1]
    yield
    return b"".join((*pieces, wire[done:]))


@cache
def _table(descriptor: Any) -> _Table:  # protobuf's two implementations have no common type
    known: dict[str, _Table] = {}

    def of(message: Any) -> _Table:
        if message.full_name not in known:
            table = known[message.full_name] = _Table()
            for each in message.fields:
                if each.message_type is not None:
                    inner = of(each.message_type)
                    table.by_number[each.number] = _Entry(each.name, inner, GetMessageClass(each.message_type))
                elif each.type == FieldDescriptor.TYPE_STRING:
                    table.by_number[each.number] = _Entry(each.name)
        return known[message.full_name]

    return of(descriptor)
