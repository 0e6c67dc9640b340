"""One request from a file, and the error of a file that cannot be read."""

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from tracegrade.extract.unread import looks_like_a_tool
from tracegrade.model.log_record import lacks_id
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import FileRead
from tracegrade.otlp.ids import (
    BAD_IDS,
    BAD_LOG_IDS,
    all_ids_are_whole,
    take_out_bad_log_records,
    take_out_bad_spans,
)
from tracegrade.otlp.request import ITEM_NAMES, containers
from tracegrade.semconv import EVENT_NAME

# No real request comes near it; a torn or foreign file may ask for more, which must not be allocated.
MAX_REQUEST_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """One request: ``payload`` is its protobuf, as in the file but for spans that were left out, or made from its JSON.

    ``origin`` is ``file:line`` or ``file@offset``, for messages.
    """

    signal: Signal
    payload: bytes
    origin: str


def whole_request(
    signal: Signal, request: Message, origin: str, file: FileRead, payload: bytes | None = None
) -> SourceRequest:
    """A request whose spans and log records all have whole ids; others are taken out of it and noted in `file`.

    Args:
        signal: of the request.
        request: the request, which is changed.
        origin: where it is from.
        file: the file that it is from.
        payload: its protobuf, where that is known.
    """
    name = ITEM_NAMES[signal]
    for items in containers(signal, request):
        if signal is Signal.TRACES and not all_ids_are_whole(items):
            taken_out, reasons = take_out_bad_spans(items), BAD_IDS
        elif signal is Signal.LOGS:
            taken_out, reasons = take_out_bad_log_records(items), BAD_LOG_IDS
            for record in items:
                if lacks_id(record) and looks_like_a_tool(event := _event_name(record)):
                    file.note_unread_log_record(event, lacks_id(record))
        else:
            continue
        if taken_out:
            problems = [f"{name} {item.span_id.hex() or 'without an id'}: {reasons[why]}" for why, item in taken_out]
            file.leave_out(name, len(taken_out), problems)
            payload = None
    if number := sum(map(len, containers(signal, request))):
        file.read[name] += number
    return SourceRequest(signal, request.SerializeToString() if payload is None else payload, origin)


def _event_name(record: Any) -> str:
    attributes = (each.value.string_value for each in record.attributes if each.key == EVENT_NAME)
    name: str = record.event_name or next(attributes, "")
    return name
