"""Spans as OTLP writes them to `Span`s, keeping only the attributes that something reads.

Reading an attribute in Python costs more than parsing it (upb parses into C). So keys are filtered in C, and only the
values of kept keys are read.
"""

import base64
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tracegrade.extract.dialect_set import DialectSet
from tracegrade.extract.key_sets import ByKeys
from tracegrade.extract.shape.keys import (
    MAX_BYTES,
    MAX_KEYS,
    MAX_KNOWN_KEYS,
    function_key,
    is_foreign,
    is_known,
    may_be_asked_for,
    may_be_filled,
    may_be_read,
    may_hold_work,
    names_tool,
    shows_content,
)
from tracegrade.extract.unread import looks_like_a_tool
from tracegrade.model.json_value import JsonValue
from tracegrade.model.short_hash import short_hash
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.semconv import EXCEPTION_EVENT

# There are few distinct attribute keys; a sender that invents keys without end must not grow the memo for ever.
_MAX_KNOWN_KEYS = 50_000
# Names of attributes are short; longer ones are decided again each time, so that the memos stay small.
_LONGEST_LEARNT_KEY = 256
_MAX_NOTED_KEYS = 64


@dataclass(frozen=True, slots=True)
class AttributeFilter:
    """Which attributes of a span decoding keeps: by key, by key prefix, and all attributes of events with these names.

    An event may also be a log record. ``marks`` are the keys by which dialects recognise their spans: all keys of a
    span that has none of them and looks like a tool call are noted (see `extract.unread`).

    With ``by_shape``, spans that are worth it are kept whole, with all attributes and events (see `extract.shape`); not
    those whose names begin with one of ``own_names``, nor log events with a scope and name of ``passed_over``.
    """

    attributes: frozenset[str]
    prefixes: tuple[str, ...] = ()
    events: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    by_shape: bool = False
    own_names: tuple[str, ...] = ()
    passed_over: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, read: DialectSet, attributes: frozenset[str], *, by_shape: bool) -> "AttributeFilter":
        """The filter that keeps what some dialects read, and `attributes`."""
        kept = read.attributes | attributes
        return cls(kept, read.prefixes, read.events, read.marks, by_shape, read.own_names, read.passed_over)

    @property
    def hash(self) -> str:
        """16 hex digits that change when the filter keeps other attributes."""
        parts = (self.attributes, self.prefixes, self.events, self.marks)
        shape = ("shape", *self.own_names, *sorted(self.passed_over)) if self.by_shape else ()
        return short_hash(repr([*(sorted(part) for part in parts), *shape]).encode())


class _Gate(dict[str, bool]):
    """Whether an attribute key is kept; remembered for each key that came."""

    def __init__(self, attribute_filter: AttributeFilter) -> None:
        self._filter = attribute_filter

    def __missing__(self, key: str) -> bool:
        kept = key in self._filter.attributes or key.startswith(self._filter.prefixes)
        if len(self) >= _MAX_KNOWN_KEYS:
            self.clear()
        if len(key) <= _LONGEST_LEARNT_KEY:
            self[key] = kept
        return kept


class _Unusual(NamedTuple):
    """A set of attribute keys that no dialect knows, or of a span that is kept whole.

    ``unmarked`` are all keys where no dialect knows such a span; `looks_like_a_tool` says whether one of them does.
    ``whole`` are all keys of a span that is kept whole, None for others. With ``by_name`` it is so only if its name has
    the word tool, or a value is JSON of a model's or a tool's work; with ``by_events`` only if it has events that no
    dialect reads: none of its keys has content then.
    """

    unmarked: tuple[str, ...] | None
    looks_like_a_tool: bool
    whole: tuple[str, ...] | None
    by_name: Callable[[str], bool] | None
    by_events: bool = False

    def is_worth_it(self, name: str, has_own_events: bool, texts: Iterable[str]) -> bool:
        """Whether a span of these keys is kept whole.

        Args:
            name: of the span.
            has_own_events: whether it has events that no dialect reads.
            texts: of its attributes.
        """
        if self.whole is None or (self.by_events and not has_own_events):
            return False
        return self.by_name is None or self.by_name(name) or any(map(may_hold_work, texts))


class _Chosen(NamedTuple):
    """Those of a set of attribute keys that are kept, and what is unusual about the set: None for nearly all."""

    kept: tuple[str, ...]
    unusual: _Unusual | None


class _Choice(ByKeys[_Chosen]):
    """Which of a span's attribute keys are kept, sorted; remembered for each set, as senders repeat a few sets of keys.

    They are sorted because the order of a protobuf map differs from process to process. All spans, and all code that
    looks keys up, share the same key objects.
    """

    def __init__(self, attribute_filter: AttributeFilter) -> None:
        super().__init__(self._choose)
        self._is_kept = _Gate(attribute_filter).__getitem__
        self._marks = attribute_filter.marks
        self._by_shape = attribute_filter.by_shape

    def _choose(self, keys: tuple[str, ...]) -> _Chosen:
        kept = tuple(map(sys.intern, sorted(filter(self._is_kept, keys))))
        marks = self._marks.intersection(keys)
        whole: tuple[str, ...] | None = None
        by_name: Callable[[str], bool] | None = None
        by_events = False
        if self._by_shape and len(keys) <= MAX_KEYS:
            if is_known(marks, keys):
                by_events = not may_be_filled(marks, keys, kept) and function_key(keys, kept) is None
                is_worth_it = len(keys) <= MAX_KNOWN_KEYS and not (by_events and shows_content(keys))
            else:
                is_worth_it = True
                if not may_be_read(keys, is_marked=bool(marks)):
                    by_name = names_tool if len(keys) > 1 else may_be_asked_for
            if is_worth_it and not is_foreign(keys):
                whole = tuple(map(sys.intern, sorted(keys)))
        unusual = None
        if not marks:
            looks = any(map(looks_like_a_tool, keys))
            unusual = _Unusual(tuple(sorted(keys)[:_MAX_NOTED_KEYS]), looks, whole, by_name)
        elif whole is not None:
            unusual = _Unusual(None, False, whole, by_name, by_events)
        return _Chosen(kept, unusual)


class SpanReader:
    """Makes `Span`s of the spans of a `KeyedRequest`."""

    def __init__(self, attribute_filter: AttributeFilter) -> None:
        self.filter = attribute_filter
        self.filter_hash = attribute_filter.hash
        self._chosen = _Choice(attribute_filter)
        self._kept_events = attribute_filter.events
        self._read_events = attribute_filter.events | {EXCEPTION_EVENT}
        self._own_names = attribute_filter.own_names

    def read(self, span: Any, scope: str, resource: Resource) -> Span:
        """One `span` of a `KeyedRequest`."""
        attributes: dict[str, JsonValue] = {}
        keyed = span.attributes
        kept, unusual = self._chosen[tuple(keyed)]
        unmarked, is_whole = None, False
        if unusual is not None:
            if unusual.unmarked is not None and (unusual.looks_like_a_tool or looks_like_a_tool(span.name)):
                unmarked = unusual.unmarked
            if unusual.whole is not None and self._is_worth_it(span, unusual):
                kept, is_whole = unusual.whole, True
        for key in kept:
            value = keyed[key]
            # Most values are non-empty texts, and most others numbers: these are read with one access or two.
            attributes[key] = value.string_value or value.int_value or json_value(value)
        status_code, status_message = 0, ""
        if span.HasField("status"):
            status = span.status
            status_code, status_message = status.code, status.message
        return Span(
            span.trace_id,
            span.span_id,
            span.parent_span_id,
            span.name,
            span.kind,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.flags,
            status_code,
            status_message,
            attributes,
            list(self._events(span.events, is_whole)) if span.events else [],
            span.dropped_attributes_count,
            scope,
            resource,
            unmarked,
            is_whole,
        )

    def _is_worth_it(self, span: Any, unusual: _Unusual) -> bool:
        """Whether a span whose keys are worth it is kept whole, by its name, its events, its texts and its size."""
        if (unusual.by_events and not span.events) or span.name.startswith(self._own_names):
            return False
        has_own_events = any(event.name not in self._read_events for event in span.events)
        texts = (value.string_value for value in span.attributes.values())
        if not unusual.is_worth_it(span.name, has_own_events, texts):
            return False
        size: int = span.ByteSize()
        return size <= MAX_BYTES

    def _events(self, events: Iterable[Any], is_whole: bool) -> Iterator[SpanEvent]:
        for event in events:
            if is_whole or event.name in self._kept_events:
                yield SpanEvent(event.name, event.time_unix_nano, all_values(event.attributes))


def all_values(attributes: Iterable[KeyValue]) -> dict[str, JsonValue]:
    """All of these attributes."""
    return {pair.key: (value := pair.value).string_value or value.int_value or json_value(value) for pair in attributes}


def json_value(value: AnyValue) -> JsonValue:
    """An AnyValue as JSON: bytes become base64 text, NaN and the infinities their names, unset null."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "bool_value":
        return value.bool_value
    if kind == "int_value":
        return value.int_value
    if kind == "double_value":
        return _finite(value.double_value)
    if kind == "kvlist_value":
        return {pair.key: json_value(pair.value) for pair in value.kvlist_value.values}
    if kind == "array_value":
        return [item.string_value or item.int_value or json_value(item) for item in value.array_value.values]
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode("ascii")
    return None


def _finite(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
