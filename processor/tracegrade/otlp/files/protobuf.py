"""Reads OTLP protobuf from files: one request, or requests each after its length as a varint."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from tracegrade.model.errors import NotTaken, TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import FileRead
from tracegrade.otlp.files.source_request import MAX_REQUEST_BYTES, SourceRequest, whole_request
from tracegrade.otlp.pieces import WireError
from tracegrade.otlp.repair import Repaired, repaired
from tracegrade.otlp.request import ITEM_NAMES, PATHS, REQUESTS, containers

_SIGNAL_WORDS = {"traces": Signal.TRACES, "spans": Signal.TRACES, "logs": Signal.LOGS, "metrics": Signal.METRICS}


def read_protobuf(stream: BinaryIO, head: bytes, file: FileRead) -> Iterator[SourceRequest]:
    """The requests of a file that begins with `head`; what is left out of them is noted in `file`.

    Raises:
        TraceGradeError: torn, or not OTLP.
    """
    name = file.name
    signal = None  # known from the first request with items; one file holds one signal
    messages = _delimited(stream, name) if _is_delimited(head) else _single(stream, name)
    for offset, payload in messages:
        file.take_for(FORMAT)
        if not payload:  # an empty request
            continue
        origin = f"{name}@{offset}"
        if signal is None:
            signal = _signal_of(payload, name, origin)
        if signal is None:
            continue
        found = _readable(signal, payload)
        if found is None:
            raise TraceGradeError(f"{origin}: not an OTLP {signal.name.lower()} request; expected one {_FORMS}")
        read, request = found
        file.leave_out(ITEM_NAMES[signal], read.dropped, read.problems)
        file.repaired_texts += read.texts.total()
        has_old = _take_old_scopes(signal, request)
        yield whole_request(signal, request, origin, file, None if has_old else read.payload)


FORMAT = "OTLP protobuf"


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
        raise TraceGradeError(f"{name}: one protobuf request of more than {MAX_REQUEST_BYTES} bytes; split it")
    yield 0, payload


def _delimited(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while (length := _read_varint(stream, f"{name}@{offset}")) is not None:
        if length > MAX_REQUEST_BYTES:
            raise TraceGradeError(f"{name}@{offset}: not OTLP: a length of {length} bytes, {_FORMS}")
        payload = stream.read(length)
        if len(payload) < length:
            raise TraceGradeError(f"{name}@{offset}: torn: expected a request of {length} bytes, found {len(payload)}")
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
            raise TraceGradeError(f"{origin}: torn: the file ends within a length")
        length |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return length
    raise TraceGradeError(f"{origin}: not OTLP: expected a length, found a varint of more than 5 bytes")


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
        if signal not in items and (found := _readable(signal, payload)) is not None:
            read, message = found
            _take_old_scopes(signal, message)
            is_damaged = is_damaged or read.dropped > 0
            items[signal] = list(islice(chain.from_iterable(containers(signal, message)), _SAMPLE))
        if any(map(makes_sense, items.get(signal, ()))):
            return signal
    if not items or (is_damaged and not any(items.values())):
        raise TraceGradeError(f"{origin}: not OTLP; expected JSON, or a protobuf export request {_FORMS}")
    if not any(items.values()):
        return None
    if (signal_of_name := _signal_of_name(name)) in items:
        return signal_of_name
    raise TraceGradeError(
        f"{origin}: cannot tell whether this is traces, logs or metrics; put one of these words into the file's name"
    )


def _readable(signal: Signal, payload: bytes) -> tuple[Repaired, Message] | None:
    """`payload`, repaired where it does not parse as it is, and its request; None when it is none of `signal`."""
    try:
        return Repaired(payload), REQUESTS[signal].FromString(payload)
    except DecodeError:
        pass
    try:
        read = repaired(signal, payload)
        return read, REQUESTS[signal].FromString(read.payload)
    except (NotTaken, WireError, DecodeError):
        return None


# The field of scopes with their items in OTLP 0.15 to 0.18, which had two; the messages in both are the same.
# Source: opentelemetry-proto v0.15.0, trace.proto and logs.proto, `instrumentation_library_spans`.
_OLD_SCOPES = 1000


def _take_old_scopes(signal: Signal, request: Message) -> bool:
    """Move the scopes of an old field to the one of today; returns whether there were any."""
    resources, scopes, _ = PATHS[signal]
    found = False
    for resource in getattr(request, resources):
        fields = UnknownFieldSet(resource)
        for unknown in (fields[place] for place in range(len(fields))):
            if unknown.field_number == _OLD_SCOPES and isinstance(unknown.data, bytes):
                with suppress(DecodeError):
                    getattr(resource, scopes).add().MergeFromString(unknown.data)
                    found = True
        if found:
            resource.DiscardUnknownFields()
    return found


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
