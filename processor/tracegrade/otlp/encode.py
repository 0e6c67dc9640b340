"""OTLP messages that we write ourselves: attributes encoded once, requests put together and kept small.

An encoded element of a repeated field may be appended to its encoded message, so what repeats from one message to the
next (rule, agent, label) is encoded once and kept. The three signals' requests have the same frame: a list of
resources, each with its list of scopes, each with its list of items.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList

from tracegrade.model.json_value import JsonValue
from tracegrade.semconv import OWN_SCOPE

RESOURCE_ATTRIBUTES = 1  # field numbers of `attributes`
LOG_RECORD_ATTRIBUTES = 6
SPAN_ATTRIBUTES = 9

# A peer's limit is 4 MiB at the least (gRPC libraries' default); an item larger than ours goes alone.
MAX_REQUEST_BYTES = 1024 * 1024

_LONGEST_KEPT = 200  # characters: longer texts rarely repeat
_INT64 = range(-(2**63), 2**63)


def repeated(number: int, content: bytes) -> bytes:
    """One element of the repeated message field `number` (below 16), encoded."""
    size = len(content)
    if size < 0x80:
        return bytes((number << 3 | 2, size)) + content
    head = bytearray((number << 3 | 2,))
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + content


def attribute(number: int, key: str, value: JsonValue) -> bytes:
    """One attribute as an element of the field `number`; kept when it is likely to be wanted again."""
    if isinstance(value, list | dict) or (isinstance(value, str) and len(value) > _LONGEST_KEPT):
        return unkept_attribute(number, key, value)
    return _kept(number, key, value + 0.0 if isinstance(value, float) else value)  # -0.0 equals 0.0: one encoding


def unkept_attribute(number: int, key: str, value: JsonValue) -> bytes:
    """As `attribute`, for values that do not come again, such as ids."""
    head = _key(key)
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        size, whole = len(text), len(head) + len(text) + 4
        if whole < 0x80:  # by far the most: all lengths take one byte
            return bytes((number << 3 | 2, whole)) + head + bytes((0x12, size + 2, 0x0A, size)) + text
    return repeated(number, head + repeated(2, _encoded(value)))


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
def _kept(number: int, key: str, value: bool | int | float | str | None) -> bytes:
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
    """One encoded span, log record or metric under its encoded Resource; ``owner`` says whose it is."""

    owner: int
    resource: bytes
    content: bytes


@dataclass(slots=True)
class Request:
    """One encoded export request, and the owners of what is in it."""

    payload: bytes
    owners: set[int] = field(default_factory=set)


def requests(items: Iterable[Item], max_bytes: int = MAX_REQUEST_BYTES) -> Iterator[Request]:
    """The items as export requests of one signal, in order, each request of at most about `max_bytes`.

    Neighbours under equal resources share one. The same items give the same requests.
    """
    batch: list[Item] = []
    size = 0
    for item in items:
        weight = len(item.content) + len(item.resource)  # an upper bound: resources are shared
        if batch and size + weight > max_bytes:
            yield _request(batch)
            batch, size = [], 0
        batch.append(item)
        size += weight
    if batch:
        yield _request(batch)


def _request(batch: list[Item]) -> Request:
    parts: list[bytes] = []
    contents: list[bytes] = []
    for item, following in zip(batch, [*batch[1:], None], strict=True):
        contents.append(repeated(2, item.content))
        if following is None or following.resource != item.resource:
            scope = repeated(1, own_scope()) + b"".join(contents)
            parts.append(repeated(1, repeated(1, item.resource) + repeated(2, scope)))
            contents = []
    return Request(b"".join(parts), {item.owner for item in batch})
