"""Spans that are kept as the bytes that came, for traces that no rule judges: the rest is read when it is asked for."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as OtlpResource

from tracegrade.codec.keyed_request import KeyedRequest
from tracegrade.codec.raw_request import HeadsRequest, RawRequest, TraceIdsRequest
from tracegrade.codec.span_reader import AttributeFilter, SpanReader, all_values
from tracegrade.extract.dialect_set import DialectSet
from tracegrade.extract.key_sets import ByKeys
from tracegrade.extract.reading import SESSION_WORDS
from tracegrade.extract.registry import in_force
from tracegrade.extract.shape.words import names_session
from tracegrade.model.span import Resource, Span

# Senders repeat few resources and scopes; one that invents them without end must not grow the memo for ever.
_MAX_ORIGINS = 1024
_USUAL_BYTES = 16_384
_CONTENT = attrgetter(*(field.name for field in fields(Span)))
_READ_LATER = (
    "kind",
    "status_code",
    "status_message",
    "attributes",
    "events",
    "dropped_attributes_count",
    "unread_keys",
    "is_whole",
)
# Metadata without any of these names no session. A backslash may stand for letters.
_MAY_NAME_A_SESSION = re.compile("|".join((*SESSION_WORDS, r"\\")).encode()).search
BY_SHAPE = "tracegrade.read_by_shape"
"""Stands among further attributes where spans that are worth it are kept whole."""
_empty = object.__new__
# Parses the bytes of one span of a `KeyedRequest`.
keyed_span: Any = type(KeyedRequest().resource_spans.add().scope_spans.add().spans.add()).FromString
_head_of: Any = type(HeadsRequest().resource_spans.add().scope_spans.add().spans.add()).FromString


class _SessionPlaces(NamedTuple):
    """Attribute keys of one span: those whose value may be a session, and those in whose JSON object one may stand."""

    named: tuple[str, ...]
    metadata: tuple[str, ...]


_NOWHERE = _SessionPlaces((), ())


class _SessionKeys(ByKeys[_SessionPlaces | None]):
    """Where a span may hold a session, by all its attribute keys; None where it may be read elsewhere."""

    def __init__(self, dialects: DialectSet, *, by_shape: bool) -> None:
        super().__init__(self._places)
        self._keys = frozenset(dialects.session_keys)
        self._metadata = dialects.metadata
        self._elsewhere = dialects.session_marks
        self._by_shape = by_shape

    def _places(self, names: tuple[str, ...]) -> _SessionPlaces | None:
        if self._elsewhere is None or not self._elsewhere.isdisjoint(names):
            return None
        if self._by_shape and any(names_session(key) for key in names if key not in self._keys):
            return None  # whether it counts depends on what the span is
        named = tuple(key for key in names if key in self._keys)
        metadata = tuple(key for key in names if key in self._metadata)
        return _SessionPlaces(named, metadata) if named or metadata else _NOWHERE


class Origin:
    """Where spans come from, shared by them: their resource and scope, as bytes and as read, and who reads them."""

    __slots__ = ("reader", "resource", "resource_bytes", "scope", "scope_bytes")

    def __init__(self, reader: SpanReader, resource_bytes: bytes, scope_bytes: bytes, resource: Resource) -> None:
        self.reader = reader
        self.resource_bytes = resource_bytes
        self.scope_bytes = scope_bytes
        self.resource = resource
        self.scope: str = InstrumentationScope.FromString(scope_bytes).name


class RawSpan(Span):
    """A span of which only ids, name, times, flags and origin are read; the other fields are read when asked for.

    It is equal to the `Span` that it decodes to. `RawReader.span` makes it.

    ``raw`` is the span as it came, ``origin`` its resource and scope. ``sessions`` are the attribute values that may be
    its session, as bytes of AnyValue; None where that is not clear. In those of ``metadata`` it may stand, too.
    """

    __slots__ = ("_read", "metadata", "origin", "raw", "sessions")
    _read: Span
    origin: Origin
    raw: bytes
    sessions: tuple[bytes, ...] | None
    metadata: tuple[bytes, ...]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RawSpan) and other.raw == self.raw and other.origin is self.origin:
            return True
        return isinstance(other, Span) and _CONTENT(self) == _CONTENT(other)

    __hash__ = None  # type: ignore[assignment]  # as of Span

    def decoded(self) -> Span:
        """The span with all its fields."""
        origin = self.origin
        return origin.reader.read(keyed_span(self.raw), origin.scope, origin.resource)

    def read(self) -> Span:
        """The same, decoded once: for its fields that are read later."""
        try:
            return self._read
        except AttributeError:
            self._read = self.decoded()
            return self._read

    def may_hold(self, text: str) -> bool:
        """Whether this name, or value, of an attribute can be in it; False is certain."""
        return text.encode() in self.raw


def _read_later(field: str) -> Any:
    value = attrgetter(field)
    return property(lambda span: value(span.read()))


# Not by `__getattr__`: reading each other field of a class that has it takes four times as long.
for _name in _READ_LATER:
    setattr(RawSpan, _name, _read_later(_name))


def plain(span: Span) -> Span:
    """The span with all its fields."""
    return span.decoded() if isinstance(span, RawSpan) else span


OwnPlaces: TypeAlias = Callable[[Sequence[Any]], list[int]]
"""The places of those spans that are of our share, by their ``trace_id`` alone."""


class OpenedRequest(NamedTuple):
    """A request of which it is known where its spans come from, and nothing else.

    ``origins`` are those of its scopes, in their order. One is None where the wire splits a resource or a scope, so
    that it cannot be taken as bytes. ``parts`` is the `RawRequest`.
    """

    payload: bytes
    parts: Any
    origins: list[Origin | None]

    @property
    def scopes(self) -> Iterator[Any]:
        """Its scopes, whose spans are bytes."""
        return (of_scope for of_resource in self.parts.resource_spans for of_scope in of_resource.scope_spans)


class RawGroup(NamedTuple):
    """The spans of one scope of a request, as they came.

    ``heads`` are those of ``spans``, in their order, to be taken once; ``others`` counts spans of other shares.
    """

    heads: Iterable[Any]
    spans: Sequence[bytes]
    others: int


class RawReader:
    """Takes requests apart into the bytes of their spans."""

    def __init__(self, reader: SpanReader) -> None:
        """Start; `reader` will read the fields that are asked for."""
        self.reader = reader
        self._origins: dict[tuple[bytes, bytes], Origin] = {}
        self._resources: dict[bytes, Resource] = {}
        self._session_keys = _SessionKeys(in_force(), by_shape=reader.filter.by_shape)

    def open(self, payload: bytes) -> OpenedRequest:
        """One ExportTraceServiceRequest; this takes a twentieth of the time of reading `groups`."""
        parts = RawRequest.FromString(payload)
        origins = [
            self._origin(of_resource.resource, of_scope.scope)
            for of_resource in parts.resource_spans
            for of_scope in of_resource.scope_spans
        ]
        return OpenedRequest(payload, parts, origins)

    def groups(self, opened: OpenedRequest, own_places: OwnPlaces | None = None) -> Iterator[RawGroup]:
        """The spans of a request, a scope at a time, in its order; with `own_places`, no others than these."""
        request = HeadsRequest if own_places is None else TraceIdsRequest
        resources = request.FromString(opened.payload).resource_spans
        items = (of_scope.spans for of_resource in resources for of_scope in of_resource.scope_spans)
        for of_scope, heads in zip(opened.scopes, items, strict=True):
            spans = of_scope.spans
            if own_places is None:
                yield RawGroup(heads, spans, 0)
            else:
                own = [spans[place] for place in own_places(heads)]
                yield RawGroup(map(_head_of, own), own, len(spans) - len(own))

    def spans(self, request: bytes) -> list[Span]:
        """The spans of a request that `request_of` made."""
        opened = self.open(request)
        return [
            self.span(head, raw, origin)
            for group, origin in zip(self.groups(opened), opened.origins, strict=True)
            if origin is not None
            for head, raw in zip(group.heads, group.spans, strict=True)
        ]

    def span(self, head: Any, raw: bytes, origin: Origin) -> RawSpan:
        """One span, as it came, with its head of a `HeadsRequest`."""
        span = _empty(RawSpan)  # without `__init__`: calling it takes a sixth of the time of all this
        span.trace_id = head.trace_id
        span.span_id = head.span_id
        span.parent_span_id = head.parent_span_id
        span.start_ns = head.start_time_unix_nano
        span.end_ns = head.end_time_unix_nano
        span.name = head.name
        span.flags = head.flags
        span.scope = origin.scope
        span.resource = origin.resource
        span.raw = raw
        span.origin = origin
        attributes = head.attributes
        places = self._session_keys[tuple(attributes)]
        span.metadata = ()
        if places is _NOWHERE:
            span.sessions = ()
        elif places is None:
            span.sessions = None
        else:
            span.sessions = tuple([attributes[key] for key in places.named])
            if places.metadata:
                values = [attributes[key] for key in places.metadata]
                span.metadata = tuple(filter(_MAY_NAME_A_SESSION, values))
        return span

    def _origin(self, resources: Sequence[bytes], scopes: Sequence[bytes]) -> Origin | None:
        if len(resources) > 1 or len(scopes) > 1:
            return None
        key = resources[0] if resources else b"", scopes[0] if scopes else b""
        found = self._origins.get(key)
        if found is None:
            if len(self._origins) >= _MAX_ORIGINS:
                self._origins.clear()
                self._resources.clear()
            resource = self._resources.get(key[0])
            if resource is None:
                resource = Resource(all_values(OtlpResource.FromString(key[0]).attributes))
                self._resources[key[0]] = resource
            found = self._origins[key] = Origin(self.reader, *key, resource)
        return found


@lru_cache(maxsize=16)
def further_attributes(attribute_filter: AttributeFilter) -> tuple[str, ...]:
    """The attributes that it keeps beside those that dialects read: kept spans name them, and `BY_SHAPE`."""
    further = attribute_filter.attributes.difference(in_force().attributes)
    return tuple(sorted(further | {BY_SHAPE} if attribute_filter.by_shape else further))


def raw_reader_of(further: Iterable[str]) -> RawReader:
    """A reader of stored spans, by the dialects in force and with these `further_attributes`."""
    read = in_force()
    named = frozenset(further)
    return _raw_reader(AttributeFilter.of(read, named - {BY_SHAPE}, by_shape=BY_SHAPE in named))


@lru_cache(maxsize=16)
def _raw_reader(attribute_filter: AttributeFilter) -> RawReader:
    return RawReader(SpanReader(attribute_filter))


def all_raw(spans: Sequence[Span]) -> list[RawSpan] | None:
    """All `spans`, if all of them are held as they came; None when one was read, or there are none."""
    if not spans or not isinstance(spans[0], RawSpan):
        return None
    found = [span for span in spans if isinstance(span, RawSpan)]
    return found if len(found) == len(spans) else None


def request_of(spans: Iterable[RawSpan]) -> bytes:
    """One ExportTraceServiceRequest of these spans, by origin; bytes are as they came."""
    by_origin: defaultdict[Origin, list[bytes]] = defaultdict(list)
    for span in spans:
        by_origin[span.origin].append(span.raw)
    parts: list[bytes] = []  # joined once, as copying a trace several times shows
    for origin, raws in by_origin.items():
        resource, scope = (_field(1, part) if part else b"" for part in (origin.resource_bytes, origin.scope_bytes))
        heads = [_SPAN_HEADS[length] for length in map(len, raws)]
        of_scope = len(scope) + sum(map(len, heads)) + sum(map(len, raws))
        scope_head = _head(2, of_scope)
        parts += (_head(1, len(resource) + len(scope_head) + of_scope), resource, scope_head, scope)
        parts += chain.from_iterable(zip(heads, raws, strict=True))
    return b"".join(parts)


def _field(number: int, content: bytes) -> bytes:
    """A field of protobuf with that number, below 16, that holds bytes."""
    return _head(number, len(content)) + content


def _head(number: int, length: int) -> bytes:
    head = bytearray((number << 3 | 2,))
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return bytes(head)


class _SpanHeads(dict[int, bytes]):
    """What stands before a span of so many bytes, remembered for usual lengths."""

    def __missing__(self, length: int) -> bytes:
        head = _head(2, length)
        if length < _USUAL_BYTES:
            self[length] = head
        return head


_SPAN_HEADS = _SpanHeads()
