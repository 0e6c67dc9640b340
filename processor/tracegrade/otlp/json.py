"""OTLP/JSON to and from protobuf messages, by one walk over tables built from the messages' descriptors.

OTLP/JSON is not protobuf's own JSON mapping: trace and span ids are hexadecimal, enums are integers only, keys are
lowerCamelCase only, and unknown keys are ignored. ``google.protobuf.json_format`` gets the first of these wrong
without an error, so it is not used here.

Source: opentelemetry-proto docs/specification.md, "JSON Protobuf Encoding"; for everything that it does not change, the
ProtoJSON page of protobuf.dev.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from binascii import unhexlify
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.model.signal import Signal
from tracegrade.otlp.request import REQUESTS, containers

# Levels of messages, the request itself included: the default limit of protobuf parsers.
MAX_NESTING = 100
MAX_PROBLEMS = 5
_ID_FIELDS = frozenset({"trace_id", "span_id", "parent_span_id"})
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
    one, and are not in ``message``; ``problems`` describes the first few.
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


def read_request(signal: Signal, document: JsonValue) -> JsonRequest:
    """Read a request of `signal` from a decoded JSON document.

    Raises:
        OtlpJsonError: a value of a wrong type outside of a span and no span left, or nested too deep.
    """
    read = _read(signal, document, whole=False)
    if read.dropped and not any(containers(signal, read.message)):
        return _read(signal, document, whole=True)
    return read


def _read(signal: Signal, document: JsonValue, *, whole: bool) -> JsonRequest:
    """`read_request`; `whole`: a mistake in a resource or scope costs not only what is in it."""
    request = REQUESTS[signal]()
    walk = _Walk(request, whole=whole)
    try:
        _fill(request, _table(request.DESCRIPTOR), document, walk, 1)
    except _BadValueError as error:
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


class _BadValueError(Exception):
    """A value that its field cannot take; its path is collected on the way out, innermost part first."""

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        self.message = message
        self.fatal = fatal  # drops the request even inside a span
        self.path: list[str] = []

    def json_path(self) -> str:
        return "$" + "".join(reversed(self.path))


@dataclass(slots=True)
class _Field:
    """How one field is read and written; ``table`` is set for messages, ``read`` and ``write`` matter for the rest."""

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
    """The fields of one message type."""

    by_key: dict[str, _Field] = field(default_factory=dict)
    by_proto_name: dict[str, _Field] = field(default_factory=dict)


def _fill(message: Any, table: _Table, value: Any, walk: _Walk, level: int) -> None:
    """Set the fields of `message` from the JSON object `value`."""
    if type(value) is not dict:
        raise _BadValueError(f"expected an object, found {_shown(value)}")
    if level > MAX_NESTING:
        raise _BadValueError(f"nested more than {MAX_NESTING} messages deep", fatal=True)
    by_key = table.by_key
    for key, item in value.items():
        entry = by_key.get(key)
        if entry is None:
            if key in table.by_proto_name:
                walk.snake_case_keys += 1
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
            except _BadValueError as error:
                error.path.append(f".{key}")
                raise


def _fill_repeated(container: Any, entry: _Field, items: Any, walk: _Walk, level: int) -> None:
    if type(items) is not list:
        raise _BadValueError(f"expected a list, found {_shown(items)}")
    for index, item in enumerate(items):
        try:
            if entry.table is None:
                container.append(entry.read(item))
            else:
                _fill(container.add(), entry.table, {} if item is None else item, walk, level)
        except _BadValueError as error:
            if error.fatal or not (entry.is_item or (entry.is_container and not walk.whole)):
                error.path.append(f"[{index}]")
                raise
            del container[-1]
            walk.dropped += 1 if entry.is_item else max(1, _items_in(item))
            if len(walk.problems) < MAX_PROBLEMS:
                walk.problems.append(_problem(entry, index, item, error))


def _problem(entry: _Field, index: int, item: Any, error: _BadValueError) -> str:
    """The text of a mistake inside one item or container; senders know their spans by id, not by position."""
    if entry.is_container:
        return f"{entry.key}[{index}]: {error.json_path()}: {error.message}"
    span_id = item.get("spanId") if type(item) is dict else None
    return f"{_ITEM_NAMES[entry.name]} {_shown(span_id)}: {error.json_path()}: {error.message}"


def _items_in(container: Any) -> int:
    """How many items a resource or scope holds, whatever else is wrong with it."""
    found, waiting = 0, [container]
    while waiting:
        at = waiting.pop()
        for key, items in at.items() if type(at) is dict else ():
            if type(items) is list and key in ("spans", "logRecords", "metrics"):
                found += len(items)
            elif type(items) is list and key in ("scopeSpans", "scopeLogs", "scopeMetrics"):
                waiting += items
    return found


_TABLES: dict[str, _Table] = {}


def _table(descriptor: Any) -> _Table:  # protobuf's two implementations have no common type
    """The table of a message type, built at first use; stored before it is complete, as AnyValue contains itself."""
    table = _TABLES.get(descriptor.full_name)
    if table is None:
        table = _TABLES[descriptor.full_name] = _Table()
        for described in descriptor.fields:
            entry = _field(descriptor, described)
            table.by_proto_name[entry.name] = entry
            table.by_key[entry.key] = entry
    return table


def _field(owner: Any, described: Any) -> _Field:
    name = described.name
    is_message = described.message_type is not None
    read: Callable[[Any], Any]
    write: Callable[[Any], JsonValue]
    if is_message:
        read, write = _unused, _unused
    elif name in _ID_FIELDS:
        read, write = _read_id, bytes.hex
    else:
        read, write = _SCALARS[described.type]
    return _Field(
        name=name,
        key=described.json_name,
        repeated=described.is_repeated,
        is_item=(owner.name, name) in _ITEMS,
        is_container=(owner.name, name) in _CONTAINERS,
        table=_table(described.message_type) if is_message else None,
        read=read,
        write=write,
    )


def _unused(value: Any) -> Any:
    raise AssertionError("messages are read by their table")


def _read_id(value: Any) -> bytes:
    if type(value) is str:
        try:
            return unhexlify(value)
        except ValueError:  # binascii.Error, and texts that are not ASCII
            pass
    raise _BadValueError(f"expected an id in hexadecimal, found {_shown(value)}")


def _read_text(value: Any) -> str:
    if type(value) is str:
        return value
    raise _BadValueError(f"expected a string, found {_shown(value)}")


def _read_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise _BadValueError(f"expected true or false, found {_shown(value)}")


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


def _read_bytes(value: Any) -> bytes:
    if type(value) is str and _BASE64.fullmatch(value):
        digits = value.rstrip("=")
        try:
            return b64decode(
                digits + "=" * (-len(digits) % 4), altchars=b"-_" if "-" in value or "_" in value else None
            )
        except BinasciiError:  # no base64 text has this length
            pass
    raise _BadValueError(f"expected base64, found {_shown(value)}")


_INTEGER = re.compile(r"-?[0-9]{1,20}")


def _integer_reader(low: int, high: int) -> Callable[[Any], int]:
    """Reads numbers and decimal texts; senders write 64-bit integers both ways."""

    def read(value: Any) -> int:
        if type(value) is not int and not _is_whole(value):
            raise _BadValueError(f"expected an integer, found {_shown(value)}")
        number = int(value)
        if low <= number <= high:
            return number
        raise _BadValueError(f"expected an integer from {low} to {high}, found {_shown(value)}")

    return read


def _is_whole(value: Any) -> bool:
    """Whether a text or float is an integer that can be read exactly."""
    if type(value) is str:
        return _INTEGER.fullmatch(value) is not None
    # orjson makes floats of integers beyond 64 bits, and -2**63 - 1 must not become its neighbour.
    return type(value) is float and abs(value) < 2**63 and value.is_integer()


def _read_enum(value: Any) -> int:
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    raise _BadValueError(f"expected an enum's number, found {_shown(value)}")


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})


def _read_double(value: Any) -> float:
    kind = type(value)
    if kind is float or kind is int:
        return float(value)
    if kind is str and (value in _NOT_FINITE or (len(value) < 400 and _NUMBER.fullmatch(value))):
        return float(value)
    raise _BadValueError(f"expected a number, found {_shown(value)}")


def _write_double(value: float) -> JsonValue:
    if isfinite(value):
        return value
    return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")


def _same(value: Any) -> Any:
    return value


def _write_bytes(value: bytes) -> str:
    return b64encode(value).decode()


_INT32 = (_integer_reader(-(2**31), 2**31 - 1), _same)
_UINT32 = (_integer_reader(0, 2**32 - 1), _same)
_INT64 = (_integer_reader(-(2**63), 2**63 - 1), str)
_UINT64 = (_integer_reader(0, 2**64 - 1), str)

_SCALARS: dict[int, tuple[Callable[[Any], Any], Callable[[Any], JsonValue]]] = {
    FieldDescriptor.TYPE_STRING: (_read_text, _same),
    FieldDescriptor.TYPE_BYTES: (_read_bytes, _write_bytes),
    FieldDescriptor.TYPE_BOOL: (_read_bool, _same),
    FieldDescriptor.TYPE_ENUM: (_read_enum, _same),
    FieldDescriptor.TYPE_DOUBLE: (_read_double, _write_double),
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
}

# One escape of a JSON text at a time, so that the backslashes of "\\ud800" are not taken for another escape.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def _without_lone_surrogate(match: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if _LONE_SURROGATE.fullmatch(match.group()) else match.group()


_NAMES: dict[type, str] = {dict: "an object", list: "a list", type(None): "null"}


def _shown(value: Any) -> str:
    """`value` for an error message: only its kind when it is large, at most a few characters of it."""
    if (name := _NAMES.get(type(value))) is not None:
        return name
    text = repr(value[:40]) if isinstance(value, str) else repr(value)
    return text if len(text) <= 48 else text[:45] + "..."
