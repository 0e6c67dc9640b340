"""SOURCEs: OTLP requests read from files, folders and standard input, one request in memory at a time.

A file holds OTLP/JSON (one request, or one per line: what the collector's file exporter writes) or OTLP protobuf (one
request, or requests each after its length as a varint), plain or in gzip or zstd. The content decides which it is,
never the name. Only between traces, logs and metrics the name decides, where the content cannot.
"""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf.message import DecodeError
from zstandard import ZstdDecompressor, ZstdError

from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import OtlpJsonError, parse_document, read_request
from tracegrade.otlp.pieces import TooManyMessagesError, WireError
from tracegrade.otlp.repair import Repaired, repaired
from tracegrade.otlp.request import REQUESTS, containers

# No real request comes near it; a torn or foreign file may ask for more, which must not be allocated.
MAX_REQUEST_BYTES = 512 * 1024 * 1024

# Other files in a folder are not traces: expectations, notes, rule files.
_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".binpb", ".pb", ".bin", ".otlp"})
_COMPRESSED_SUFFIXES = frozenset({".gz", ".zst"})

_SIGNAL_KEYS = {"resourceSpans": Signal.TRACES, "resourceLogs": Signal.LOGS, "resourceMetrics": Signal.METRICS}
_SIGNAL_WORDS = {"traces": Signal.TRACES, "spans": Signal.TRACES, "logs": Signal.LOGS, "metrics": Signal.METRICS}

# `{`, then a key or the end. A length of 0x7b is also `{`, and 0x0a, the tag after it, is also a newline; but then a
# control character follows where a key would begin.
_JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{\s*(?:\"[^\x00-\x1f]|\}|\Z)")
_HEAD_BYTES = 256


class SourceError(TraceGradeError):
    """A SOURCE that cannot be read; the message names the file, and the line or byte offset."""


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """One request: ``payload`` is its protobuf, as in the file, or made from its JSON.

    ``origin`` is ``file:line`` or ``file@offset``, for messages. ``problems`` describes spans that were left out
    because a value in them had a wrong type, or their bytes are damaged (the first few; ``dropped`` counts all).
    ``repaired_texts`` counts texts that were not UTF-8: U+FFFD stands in them now.
    """

    signal: Signal
    payload: bytes
    origin: str
    dropped: int = 0
    problems: tuple[str, ...] = ()
    repaired_texts: int = 0


def read_sources(paths: Sequence[str], stdin: BinaryIO | None = None) -> Iterator[SourceRequest]:
    """All requests of all sources, in the order given; a folder's files in the order of their paths.

    Args:
        paths: files, folders (read to any depth, files with a known ending only) and ``-``.
        stdin: what ``-`` reads.

    Raises:
        SourceError: missing, unreadable, torn or not OTLP.
    """
    for path in paths:
        if path == "-":
            if stdin is None:
                raise SourceError("-: there is no standard input to read")
            yield from _read_stream(stdin, "-", in_folder=False)
        elif Path(path).is_dir():
            for member in _members(Path(path)):
                yield from _read_file(member, in_folder=True)
        else:
            yield from _read_file(Path(path), in_folder=False)


def _members(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if _is_source_name(path) and path.is_file())


def _is_source_name(path: Path) -> bool:
    inner = Path(path.stem) if path.suffix in _COMPRESSED_SUFFIXES else path
    return inner.suffix in _SUFFIXES and not path.name.startswith(".")


def _read_file(path: Path, *, in_folder: bool) -> Iterator[SourceRequest]:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}; expected a file or folder of OTLP") from None
    with stream:
        yield from _read_stream(stream, str(path), in_folder=in_folder)


def _read_stream(stream: BinaryIO, name: str, *, in_folder: bool) -> Iterator[SourceRequest]:
    try:
        plain = _decompressed(stream)
        head, plain = _peek(plain, _HEAD_BYTES)
        if _JSON_START.match(head):
            yield from _read_json(plain, name, in_folder=in_folder)
        elif head.strip():
            yield from _read_protobuf(plain, head, name)
    except (EOFError, gzip.BadGzipFile, zlib.error, ZstdError) as error:
        raise SourceError(f"{name}: broken compression: {error}") from None
    except OSError as error:
        raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from None


def _decompressed(stream: BinaryIO) -> BinaryIO:
    """`stream` without the compression that its first bytes show."""
    head, stream = _peek(stream, 4)
    if head.startswith(b"\x1f\x8b"):
        return gzip.open(stream, "rb")  # type: ignore[return-value]  # a GzipFile reads as any binary file does
    if head == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(_Unzstd(stream))
    return stream


def _peek(stream: BinaryIO, size: int) -> tuple[bytes, BinaryIO]:
    """The first `size` bytes, and a stream that still begins with them; pipes cannot seek back."""
    head = stream.read(size)
    return head, io.BufferedReader(_Rejoined(head, stream))


class _Rejoined(io.RawIOBase):
    """`head`, then what is left of `stream`."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._head:
            part, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            part = self._stream.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


class _Unzstd(io.RawIOBase):
    """The content of zstd frames; unlike zstandard's own reader, it notices a frame that ends too early."""

    _CHUNK_BYTES = 1024  # a block of 4 bytes may expand to 128 KiB, so that this can become 32 MiB

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._frame = ZstdDecompressor().decompressobj()
        self._is_within_frame = False
        self._carried = b""
        self._ready = memoryview(b"")  # sliced often, never copied

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._carried or self._stream.read(self._CHUNK_BYTES)
            if not chunk:
                if self._is_within_frame:
                    raise EOFError("a zstd frame ends too early")
                return 0
            self._ready = memoryview(self._frame.decompress(chunk))
            self._is_within_frame, self._carried = not self._frame.eof, b""
            if self._frame.eof:
                self._carried = self._frame.unused_data
                self._frame = ZstdDecompressor().decompressobj()
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


# JSON


def _read_json(stream: BinaryIO, name: str, *, in_folder: bool) -> Iterator[SourceRequest]:
    number, first = 1, _read_line(stream, name, 1).removeprefix(b"\xef\xbb\xbf")
    while first and not first.strip():
        number, first = number + 1, _read_line(stream, name, number + 1)
    if not _is_json(first) and not first.rstrip().endswith(b"}"):
        # The first line is not a JSON value: one document over several lines.
        rest = stream.read(MAX_REQUEST_BYTES + 1)
        if len(rest) > MAX_REQUEST_BYTES:
            raise SourceError(f"{name}: expected one JSON request, or one a line; found neither in its first lines")
        yield from _json_request(first + rest, name, in_folder=in_folder)
        return
    line = first
    while line:
        if line.strip():
            yield from _json_request(line, f"{name}:{number}", in_folder=in_folder)
        number += 1
        line = _read_line(stream, name, number)


def _read_line(stream: BinaryIO, name: str, number: int) -> bytes:
    line = stream.readline(MAX_REQUEST_BYTES + 1)
    if len(line) > MAX_REQUEST_BYTES:
        raise SourceError(
            f"{name}:{number}: a line of more than {MAX_REQUEST_BYTES} bytes; expected one request a line"
        )
    return line


def _is_json(text: bytes) -> bool:
    try:
        parse_document(text)
    except OtlpJsonError:
        return False
    return True


def _json_request(text: bytes, origin: str, *, in_folder: bool) -> Iterator[SourceRequest]:
    try:
        document = parse_document(text)
        signal = _json_signal(document.value)
        if signal is None:
            if document.value == {} or in_folder:
                return
            raise OtlpJsonError("$", "not OTLP: expected 'resourceSpans', 'resourceLogs' or 'resourceMetrics'")
        request = read_request(signal, document.value)
    except OtlpJsonError as error:
        raise SourceError(f"{origin}: {error}") from None
    payload = request.message.SerializeToString()
    yield SourceRequest(signal, payload, origin, request.dropped, tuple(request.problems), document.repaired_texts)


def _json_signal(document: JsonValue) -> Signal | None:
    keys = document if isinstance(document, dict) else {}
    return next((signal for key, signal in _SIGNAL_KEYS.items() if key in keys), None)


# Protobuf


def _read_protobuf(stream: BinaryIO, head: bytes, name: str) -> Iterator[SourceRequest]:
    signal = None  # known from the first request with items; one file holds one signal
    messages = _delimited(stream, name) if _is_delimited(head) else _single(stream, name)
    for offset, payload in messages:
        if not payload:  # an empty request
            continue
        origin = f"{name}@{offset}"
        if signal is None:
            signal = _signal_of(payload, name, origin)
        if signal is None:
            continue
        read = _readable(signal, payload)
        if read is None:
            raise SourceError(f"{origin}: not an OTLP {signal.name.lower()} request; expected one {_FORMS}")
        yield SourceRequest(signal, read.payload, origin, read.dropped, tuple(read.problems), read.texts.total())


_FORMS = "alone in its file, or after its length as a varint"


def _is_delimited(head: bytes) -> bool:
    """Whether each request comes after its length.

    A request begins with 0x0a, the tag of its only field. So any other first byte is a length. And 0x0a is a length
    when a whole request of that length follows: tag, length 8. In a single request, those two bytes would mean a
    resource that begins with tag 0x08, which no resource has.
    """
    return head[:1] != b"\n" or head[1:3] == b"\n\x08"


def _single(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    payload = stream.read(MAX_REQUEST_BYTES + 1)
    if len(payload) > MAX_REQUEST_BYTES:
        raise SourceError(f"{name}: one protobuf request of more than {MAX_REQUEST_BYTES} bytes; split it")
    yield 0, payload


def _delimited(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while (length := _read_varint(stream, f"{name}@{offset}")) is not None:
        if length > MAX_REQUEST_BYTES:
            raise SourceError(f"{name}@{offset}: not OTLP: a length of {length} bytes, {_FORMS}")
        payload = stream.read(length)
        if len(payload) < length:
            raise SourceError(f"{name}@{offset}: torn: expected a request of {length} bytes, found {len(payload)}")
        yield offset, payload
        offset += length + max(1, (length.bit_length() + 6) // 7)


def _read_varint(stream: BinaryIO, origin: str) -> int | None:
    """The next length; None at the end of the stream."""
    length = 0
    for shift in range(0, 35, 7):
        byte = stream.read(1)
        if not byte:
            if shift == 0:
                return None
            raise SourceError(f"{origin}: torn: the file ends within a length")
        length |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return length
    raise SourceError(f"{origin}: not OTLP: expected a length, found a varint of more than 5 bytes")


def _signal_of_name(name: str) -> Signal | None:
    """The signal that a word of the file's name says, as in ``run1.logs.binpb``; None when none or several do."""
    words = re.split(r"[^a-z]+", Path(name).name.lower())
    found = {_SIGNAL_WORDS[word] for word in words if word in _SIGNAL_WORDS}
    return found.pop() if len(found) == 1 else None


def _signal_of(payload: bytes, name: str, origin: str) -> Signal | None:
    """The signal of `payload`; None for a request without any item.

    The three requests have the same outer structure, and a field of an unexpected wire type parses as an unknown field.
    So nearly every request parses as each of the three, and only the items decide.
    """
    items: dict[Signal, list[Any]] = {}
    is_damaged = False
    for signal, makes_sense in _SENSE:
        if signal not in items and (read := _readable(signal, payload)) is not None:
            is_damaged = is_damaged or read.dropped > 0
            message = REQUESTS[signal].FromString(read.payload)
            items[signal] = list(islice(chain.from_iterable(containers(signal, message)), _SAMPLE))
        if any(map(makes_sense, items.get(signal, ()))):
            return signal
    if not items or (is_damaged and not any(items.values())):
        raise SourceError(f"{origin}: not OTLP; expected JSON, or a protobuf export request {_FORMS}")
    if not any(items.values()):
        return None
    if (signal_of_name := _signal_of_name(name)) in items:
        return signal_of_name
    raise SourceError(
        f"{origin}: cannot tell whether this is traces, logs or metrics; put one of these words into the file's name"
    )


def _readable(signal: Signal, payload: bytes) -> Repaired | None:
    """`payload`, repaired where it does not parse as it is; None when it is no request of `signal`."""
    try:
        REQUESTS[signal].FromString(payload)
        return Repaired(payload)
    except DecodeError:
        pass
    try:
        read = repaired(signal, payload)
        REQUESTS[signal].FromString(read.payload)
    except (TooManyMessagesError, WireError, DecodeError):
        return None
    return read


def _has_ids_and_times(span: Any) -> bool:
    return len(span.trace_id) == 16 and len(span.span_id) == 8 and _has_times(span)


def _has_times(span: Any) -> bool:
    return bool(span.start_time_unix_nano or span.end_time_unix_nano)


_SAMPLE = 8
# In this order: the ids of a span often look like a metric's name and description; the reverse is rare.
_SENSE: tuple[tuple[Signal, Callable[[Any], bool]], ...] = (
    (Signal.TRACES, _has_ids_and_times),
    (Signal.LOGS, lambda record: bool(record.time_unix_nano or record.observed_time_unix_nano)),
    (Signal.METRICS, lambda metric: metric.WhichOneof("data") is not None),
    (Signal.TRACES, _has_times),
)
