"""OTLP/JSON to and from protobuf messages, by one walk over tables built from the messages' descriptors.

OTLP/JSON is not protobuf's own JSON mapping: trace and span ids are hexadecimal, enums are integers only, keys are
lowerCamelCase only, and unknown keys are ignored. ``google.protobuf.json_format`` gets the first of these wrong
without an error, so it is not used here.

Source: opentelemetry-proto docs/specification.md, "JSON Protobuf Encoding"; for everything that it does not change, the
ProtoJSON page of protobuf.dev.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from google.protobuf.message import Message

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.model.signal import Signal
from tracegrade.otlp.json_values import SCALARS, BadValueError, enum_reader, id_reader, read_id, shown, unused
from tracegrade.otlp.request import REQUESTS, containers

# Levels of messages, the request itself included: the default limit of protobuf parsers.
MAX_NESTING = 100
MAX_PROBLEMS = 5
_ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
# A mistake inside one of these drops that one, not the request.
_ITEM_NAMES = {"spans": "span", "log_records": "log record", "metrics": "metric"}
_ITEMS = frozenset({("ScopeSpans", "spans"), ("ScopeLogs", "log_records"), ("ScopeMetrics", "metrics")})
# And outside of them, in a resource or scope, all that are in it.
_CONTAINERS = frozenset(
    {
        ("ExportTraceServiceRequest", "resource_spans"),
        ("ExportLogsServiceRequest", "resource_logs"),
        ("ExportMetricsServiceRequest", "resource_metrics"),
        ("ResourceSpans", "scope_spans"),
        ("ResourceLogs", "scope_logs"),
        ("ResourceMetrics", "scope_metrics"),
    }
)


class OtlpJsonError(TraceGradeError):
    """A document that cannot be read as an OTLP request; ``path`` is where, such as ``$.resourceSpans[0]``."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


@dataclass(slots=True)
class JsonRequest:
    """A request that was read.

    ``dropped`` items (spans, log records, metrics) had a value of a wrong type, or are of a resource or scope that had
    one, or of a key that OTLP does not have; they are not in ``message``, and ``problems`` describes the first few.
    ``snake_case_keys`` counts keys that would be known in lowerCamelCase: they were ignored, as the specification
    requires, but their sender has lost data.
    """

    message: Message
    dropped: int = 0
    problems: list[str] = field(default_factory=list)
    snake_case_keys: int = 0


class Document(NamedTuple):
    """A JSON value, and how many texts in it were not UTF-8 and were repaired."""

    value: JsonValue
    repaired_texts: int = 0


def parse_document(body: bytes) -> Document:
    """The JSON value of `body`; what is not UTF-8 in its texts becomes U+FFFD, and so do lone surrogates.

    Raises:
        OtlpJsonError: not JSON.
    """
    try:
        return Document(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        repaired, texts = _repaired(body)
        if not texts:
            raise OtlpJsonError("$", f"not JSON: {error}") from None
    try:
        return Document(orjson.loads(repaired), texts)
    except orjson.JSONDecodeError as error:
        raise OtlpJsonError("$", f"not JSON: {error}") from None


def _repaired(body: bytes) -> tuple[bytes, int]:
    """`body` with every text in it repaired, and how many that were."""
    texts = 0

    def repair(match: re.Match[bytes]) -> bytes:
        nonlocal texts
        text = match.group()
        # JavaScript senders that cut a text inside an emoji write such halves as escapes.
        repaired = _ESCAPE.sub(_without_lone_surrogate, text) if b"\\u" in text else text
        if not repaired.isascii():
            repaired = repaired.decode("utf-8", "replace").encode()
        texts += repaired != text
        return repaired

    return _TEXT.sub(repair, body), texts


def read_request(signal: Signal, document: JsonValue, *, lenient: bool = False) -> JsonRequest:
    """Read a request of `signal` from a decoded JSON document.

    Args:
        signal: of the request.
        document: the JSON value.
        lenient: whether to take, as files need it, what the specification refuses and can mean one thing only: names
            of enums, ids in base64, keys in snake_case, and those of OTLP before 0.15 ("instrumentationLibrary");
            spans under other keys then count as dropped.

    Raises:
        OtlpJsonError: a value of a wrong type outside of a span and no span left, or nested too deep.
    """
    read = _decode_request(signal, document, whole=False, lenient=lenient)
    if read.dropped and not any(containers(signal, read.message)):
        return _decode_request(signal, document, whole=True, lenient=lenient)
    return read


def _decode_request(signal: Signal, document: JsonValue, *, whole: bool, lenient: bool) -> JsonRequest:
    """`read_request`; `whole`: a mistake in a resource or scope costs not only what is in it."""
    request = REQUESTS[signal]()
    walk = _Walk(request, whole=whole)
    try:
        _fill(request, _table(request.DESCRIPTOR, lenient=lenient), document, walk, 1)
    except BadValueError as error:
        raise OtlpJsonError(error.json_path(), error.message) from None
    return walk


def to_json(message: Message) -> dict[str, JsonValue]:
    """The OTLP/JSON object of `message`: ids in lower-case hex, 64-bit integers as text, enums as integers."""
    fields = _table(message.DESCRIPTOR).by_proto_name
    result: dict[str, JsonValue] = {}
    for descriptor, value in message.ListFields():
        entry = fields[descriptor.name]
        write: Callable[[Any], JsonValue] = to_json if entry.table is not None else entry.write
        result[entry.key] = [write(item) for item in value] if entry.repeated else write(value)
    return result


@dataclass(slots=True)
class _Walk(JsonRequest):
    """A request that is being read; ``whole``: a mistake in a resource or scope costs the request."""

    whole: bool = False

    def drop(self, items: int, problem: str) -> None:
        self.dropped += items
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


@dataclass(slots=True)
class _Field:
    """The reader and writer of one field; ``table`` is set for messages, ``read`` and ``write`` matter for the rest."""

    name: str
    key: str
    repeated: bool
    is_item: bool
    is_container: bool
    table: "_Table | None"
    read: Callable[[Any], Any]
    write: Callable[[Any], JsonValue]


@dataclass(slots=True)
class _Table:
    """The fields of one message type; ``counts_ignored``: spans under keys that it does not have count as dropped."""

    by_key: dict[str, _Field] = field(default_factory=dict)
    by_proto_name: dict[str, _Field] = field(default_factory=dict)
    counts_ignored: bool = False


def _fill(message: Any, table: _Table, value: Any, walk: _Walk, level: int) -> None:
    """Set the fields of `message` from the JSON object `value`."""
    if type(value) is not dict:
        raise BadValueError(f"expected an object, found {shown(value)}")
    if level > MAX_NESTING:
        raise BadValueError(f"nested more than {MAX_NESTING} messages deep", fatal=True)
    by_key = table.by_key
    for key, item in value.items():
        entry = by_key.get(key)
        if entry is None:
            if key in table.by_proto_name:
                walk.snake_case_keys += 1
            elif table.counts_ignored and (spans := spans_within(item)):
                walk.drop(spans, f"{shown(key)}: OTLP has no such key")
        elif item is not None:  # null means unset
            try:
                if entry.repeated:
                    _fill_repeated(getattr(message, entry.name), entry, item, walk, level + 1)
                elif entry.table is not None:
                    part = getattr(message, entry.name)
                    part.SetInParent()  # {} is an empty message that is set
                    _fill(part, entry.table, item, walk, level + 1)
                else:
                    setattr(message, entry.name, entry.read(item))
            except BadValueError as error:
                error.path.append(f".{key}")
                raise


def _fill_repeated(container: Any, entry: _Field, items: Any, walk: _Walk, level: int) -> None:
    if type(items) is not list:
        raise BadValueError(f"expected a list, found {shown(items)}")
    for index, item in enumerate(items):
        try:
            if entry.table is None:
                container.append(entry.read(item))
            else:
                _fill(container.add(), entry.table, {} if item is None else item, walk, level)
        except BadValueError as error:
            if error.fatal or not (entry.is_item or (entry.is_container and not walk.whole)):
                error.path.append(f"[{index}]")
                raise
            del container[-1]
            walk.drop(1 if entry.is_item else max(1, _items_in(item)), _problem(entry, index, item, error))


def _problem(entry: _Field, index: int, item: Any, error: BadValueError) -> str:
    """The text of a mistake inside one item or container; senders know their spans by id, not by position."""
    if entry.is_container:
        return f"{entry.key}[{index}]: {error.json_path()}: {error.message}"
    span_id = item.get("spanId", item.get("span_id")) if type(item) is dict else None
    return f"{_ITEM_NAMES[entry.name]} {shown(span_id)}: {error.json_path()}: {error.message}"


def _items_in(container: Any) -> int:
    """Count the items of a resource or scope, whatever else is wrong with it."""
    found, waiting = 0, [container]
    while waiting:
        at = waiting.pop()
        for key, items in at.items() if type(at) is dict else ():
            if type(items) is list and key in _KEYS_OF_ITEMS:
                found += len(items)
            elif type(items) is list and key in _KEYS_OF_SCOPES:
                waiting += items
    return found


def spans_within(value: Any) -> int:
    """The number of objects in a JSON value that have a span's id, at any depth; they hold no others."""
    waiting, found = [value], 0
    while waiting:
        item = waiting.pop()
        if type(item) is list:
            waiting += item
        elif type(item) is dict:
            if _SPAN_ID_KEYS.isdisjoint(item):
                waiting += item.values()
            else:
                found += 1
    return found


_SPAN_ID_KEYS = frozenset({"spanId", "span_id", "spanID"})

_TABLES: dict[tuple[str, bool], _Table] = {}


def _table(descriptor: Any, *, lenient: bool = False) -> _Table:  # protobuf's two implementations have no common type
    """The table of a message type, built at first use; stored before it is complete, as AnyValue contains itself."""
    table = _TABLES.get((descriptor.full_name, lenient))
    if table is None:
        table = _TABLES[descriptor.full_name, lenient] = _Table()
        for described in descriptor.fields:
            entry = _field(descriptor, described, lenient=lenient)
            table.by_proto_name[entry.name] = entry
            table.by_key[entry.key] = entry
        if lenient:
            old = {key: table.by_key[new] for key, new in _OLD_KEYS.items() if new in table.by_key}
            table.by_key = {**old, **table.by_proto_name, **table.by_key}
            table.counts_ignored = descriptor.name in _HOLD_SPANS
    return table


# As OTLP called scopes before 0.15.
_OLD_KEYS = {
    "instrumentationLibrary": "scope",
    "instrumentation_library": "scope",
    "instrumentationLibrarySpans": "scopeSpans",
    "instrumentation_library_spans": "scopeSpans",
    "instrumentationLibraryLogs": "scopeLogs",
    "instrumentation_library_logs": "scopeLogs",
    "instrumentationLibraryMetrics": "scopeMetrics",
    "instrumentation_library_metrics": "scopeMetrics",
}
_KEYS_OF_SCOPES = frozenset(
    {"scopeSpans", "scopeLogs", "scopeMetrics", "scope_spans", "scope_logs", "scope_metrics"}
) | {key for key, new in _OLD_KEYS.items() if new != "scope"}
_KEYS_OF_ITEMS = frozenset({"spans", "logRecords", "log_records", "metrics"})
_HOLD_SPANS = frozenset({"ExportTraceServiceRequest", "ResourceSpans", "ScopeSpans"})


def _field(owner: Any, described: Any, *, lenient: bool) -> _Field:
    name = described.name
    is_message = described.message_type is not None
    read: Callable[[Any], Any]
    write: Callable[[Any], JsonValue]
    if is_message:
        read, write = unused, unused
    elif name in _ID_BYTES:
        read, write = id_reader(_ID_BYTES[name]) if lenient else read_id, bytes.hex
    else:
        read, write = SCALARS[described.type]
        if lenient and described.enum_type is not None:
            read = enum_reader(described.enum_type)
    return _Field(
        name=name,
        key=described.json_name,
        repeated=described.is_repeated,
        is_item=(owner.name, name) in _ITEMS,
        is_container=(owner.name, name) in _CONTAINERS,
        table=_table(described.message_type, lenient=lenient) if is_message else None,
        read=read,
        write=write,
    )


# One escape of a JSON text at a time, so that the backslashes of "\\ud800" are not taken for another escape.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def _without_lone_surrogate(match: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if _LONE_SURROGATE.fullmatch(match.group()) else match.group()
