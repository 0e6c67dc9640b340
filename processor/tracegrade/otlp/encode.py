"""OTLP messages that we write ourselves: attributes are encoded once, and requests are kept small.

An encoded element of a repeated field may be appended to its encoded message. So values that repeat from message to
message (rule, agent, label) are encoded once and kept. The requests of the three signals have the same structure: a
list of resources, each with its list of scopes, each with its list of items.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import groupby
from operator import attrgetter
from struct import Struct

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList

from tracegrade.model.json_value import JsonValue
from tracegrade.semconv import OWN_SCOPE

RESOURCE_ATTRIBUTES = 1  # field numbers of `attributes`
LOG_RECORD_ATTRIBUTES = 6
SPAN_ATTRIBUTES = 9

# A peer's limit is at least 4 MiB (the default of gRPC libraries); an item larger than ours is sent alone.
MAX_REQUEST_BYTES = 1024 * 1024

LONGEST_KEPT = 200  # characters: longer texts rarely repeat, and a sender could fill the memory with them
_INT64 = range(-(2**63), 2**63)
_RESOURCE = attrgetter("resource")
_FIXED32 = Struct("<BI").pack
_FIXED64 = Struct("<BQ").pack


def repeated(number: int, content: bytes) -> bytes:
    """One element of the repeated message field `number` (below 16), encoded."""
    return head(number, len(content)) + content


def head(number: int, size: int) -> bytes:
    """The tag and length before `size` bytes that are one element of the field `number` (below 16)."""
    if size < 0x80:
        return bytes((number << 3 | 2, size))
    if size < 0x4000:
        return bytes((number << 3 | 2, size & 0x7F | 0x80, size >> 7))
    found = bytearray((number << 3 | 2,))
    while size > 0x7F:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    found.append(size)
    return bytes(found)


def bytes_field(number: int, content: bytes) -> bytes:
    """The bytes field `number` (below 16), encoded; nothing where it is empty."""
    return head(number, len(content)) + content if content else b""


def fixed32(number: int, value: int) -> bytes:
    """The field `number` (below 16), a fixed32 such as flags, encoded."""
    return _FIXED32(number << 3 | 5, value)


def fixed64(number: int, value: int) -> bytes:
    """The field `number` (below 16), a fixed64 such as a time in ns, encoded."""
    return _FIXED64(number << 3 | 1, value)


def attribute(number: int, key: str, value: JsonValue) -> bytes:
    """One attribute as an element of the field `number`; kept when it is likely to be needed again."""
    if isinstance(value, str):
        return _cached(number, key, value) if len(value) <= LONGEST_KEPT else unkept_attribute(number, key, value)
    if isinstance(value, list | dict):
        return unkept_attribute(number, key, value)
    return _cached(number, key, value + 0.0 if isinstance(value, float) else value)  # -0.0 equals 0.0: one encoding


def unkept_attribute(number: int, key: str, value: JsonValue) -> bytes:
    """Encode like `attribute`, without the cache, for values that do not repeat."""
    name = _key(key) if len(key) <= LONGEST_KEPT else _key.__wrapped__(key)
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        size, whole = len(text), len(name) + len(text) + 4
        if whole < 0x80:  # by far the most common: all lengths take one byte
            return bytes((number << 3 | 2, whole)) + name + bytes((0x12, size + 2, 0x0A, size)) + text
    return repeated(number, name + repeated(2, _encoded(value)))


def _encoded(value: JsonValue) -> bytes:
    """The AnyValue of `value`, encoded; texts and lists by hand, in less than half of the time."""
    if isinstance(value, str):
        return repeated(1, value.encode("utf-8", "replace"))
    if isinstance(value, list):
        return repeated(5, b"".join([repeated(1, _encoded(item)) for item in value]))
    return any_value(value).SerializeToString(deterministic=True)


@lru_cache(maxsize=4096)
def _key(key: str) -> bytes:
    return repeated(1, key.encode("utf-8", "replace"))


@lru_cache(maxsize=8192, typed=True)  # typed: 1, 1.0 and True are equal and encoded differently
def _cached(number: int, key: str, value: bool | int | float | str | None) -> bytes:
    return unkept_attribute(number, key, value)


def any_value(value: JsonValue) -> AnyValue:
    """The AnyValue of a JSON value; an integer beyond 64 bits becomes text, a lone surrogate a question mark."""
    if isinstance(value, str):
        return AnyValue(string_value=_clean(value))
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value) if value in _INT64 else AnyValue(string_value=str(value))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=map(any_value, value)))
    if isinstance(value, dict):
        pairs = [KeyValue(key=_clean(key), value=any_value(item)) for key, item in value.items()]
        return AnyValue(kvlist_value=KeyValueList(values=pairs))
    return AnyValue()


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@cache
def own_scope() -> bytes:
    """The scope of everything that we write, encoded."""
    return InstrumentationScope(name=OWN_SCOPE, version=version("tracegrade")).SerializeToString()


@dataclass(slots=True)
class Item:
    """Encoded spans, log records or metrics under their encoded Resource; ``owner`` numbers the record they are of."""

    owner: int
    resource: bytes
    contents: list[bytes]


@dataclass(slots=True)
class Request:
    """One encoded export request, and the owners of its items."""

    payload: bytes
    owners: set[int] = field(default_factory=set)


def requests(items: Iterable[Item], max_bytes: int = MAX_REQUEST_BYTES) -> Iterator[Request]:
    """The items as export requests of one signal, in order, each request of at most about `max_bytes`.

    Neighbours under equal resources share one. The same items give the same requests.
    """
    batch: list[Item] = []
    room = max_bytes
    for item in items:
        for part, size in _parts(item, max_bytes):
            if batch and size > room:
                yield _request(batch)
                batch, room = [], max_bytes
            batch.append(part)
            room -= size
    if batch:
        yield _request(batch)


def _parts(item: Item, max_bytes: int) -> Iterable[tuple[Item, int]]:
    """The item with its size; when it is too large, its contents one by one. Neighbours share the resource."""
    resource_size = len(item.resource)
    size = resource_size + sum(map(len, item.contents))
    if size <= max_bytes:
        return ((item, size),)
    return ((Item(item.owner, item.resource, [content]), resource_size + len(content)) for content in item.contents)


def _request(batch: list[Item]) -> Request:
    pieces: list[bytes] = []  # joined once: copying a large request at every level would cost more than the rest
    for resource, neighbours in groupby(batch, _RESOURCE):
        under, scope = repeated(1, resource), [repeated(1, own_scope())]
        for item in neighbours:
            for content in item.contents:
                scope += (head(2, len(content)), content)
        size = sum(map(len, scope))
        scope_head = head(2, size)
        pieces += (head(1, len(under) + len(scope_head) + size), under, scope_head, *scope)
    return Request(b"".join(pieces), {item.owner for item in batch})
