"""Checks of a request before it is journalled: readable, and with whole ids in every span.

Spans with bad ids or damaged bytes are taken out, texts that are not UTF-8 are repaired, and the rest of the request is
kept: one broken instrumentation must not cost others their data. Of a request that parses only ids are looked at:
reading every attribute would cost several times the parsing.
"""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import DecodeError, Message

from tracegrade.journal.record import Encoding
from tracegrade.model.errors import NotTaken
from tracegrade.model.signal import Signal
from tracegrade.otlp.ids import BAD_IDS, all_ids_are_whole, take_out_bad_spans
from tracegrade.otlp.json import OtlpJsonError, parse_document, read_request
from tracegrade.otlp.pieces import WHOLE_BYTES, WireError, count_messages, parts_allowed, pieces, too_many_parts
from tracegrade.otlp.repair import MAX_FIELDS, finished, repair
from tracegrade.otlp.request import ITEM_NAMES, PATHS, REQUESTS
from tracegrade.otlp.service import service_of_resource
from tracegrade.otlp.wire import RESOURCES, fields

_REPLACEMENT = "\ufffd".encode()

REJECT_REASONS = {
    **BAD_IDS,
    "malformed": "values must have the type of their field, and bytes must be protobuf",
}
REPAIR_ROOM = 3
"""How many times its size a request may become by its repair: U+FFFD has three bytes."""

# The memory of values of decoded JSON, as measured; texts also take their size in the document.
_OBJECT_BYTES = 200
_LIST_BYTES = 90
_VALUE_BYTES = 80


# Many bombs at once are cheap to send. What was compressed very far may hold so many messages, and one for so many
# bytes: in agents' traces one takes about 45, a number in a vector 11.
_FREE_MESSAGES = 1000
_BYTES_A_MESSAGE = 8


class DamagedError(NotTaken):
    """Bytes that protobuf does not parse, and that `repair_in_turns` may make readable."""

    def __init__(self, message: str) -> None:
        super().__init__("undecodable", message)


@dataclass(slots=True)
class Checked:
    """A readable request.

    ``payload`` is the protobuf to journal: the very bytes that came unless they were JSON, or something was rejected or
    repaired. ``items`` counts what it holds: spans, log records or data points. ``rejected`` counts rejected spans (log
    records, metrics) by reason, ``repaired`` repaired texts by service; ``notes`` says more for the sender's eyes.
    """

    signal: Signal
    payload: bytes
    items: int
    rejected: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)

    @property
    def message(self) -> str:
        """The message to the sender: why, and what to do, in English; "" when everything was taken without remark."""
        parts = [
            f"{_counted(count, ITEM_NAMES[self.signal])} rejected: {REJECT_REASONS[reason]}"
            for reason, count in self.rejected.items()
        ]
        return "; ".join(parts + self.notes)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def is_large(encoding: Encoding, wire: bytes) -> bool:
    """Whether others would wait too long while `wire` is checked at once: `check_in_turns` is for those."""
    return encoding is Encoding.PROTOBUF and len(wire) > WHOLE_BYTES


def decoded_bytes(encoding: Encoding, wire: bytes) -> int:
    """The memory that checking `wire` takes in addition to its bytes, if much; an estimate that is rarely too low.

    Protobuf is decoded a piece at a time, JSON as a whole.
    """
    if encoding is not Encoding.JSON:
        return 0
    values = wire.count(b"{") * _OBJECT_BYTES + wire.count(b"[") * _LIST_BYTES + wire.count(b",") * _VALUE_BYTES
    return len(wire) + values


def check(signal: Signal, encoding: Encoding, wire: bytes) -> Checked:
    """Read a request, repair what can be repaired, and take out what cannot be accepted.

    Raises:
        NotTaken: not protobuf, or not OTLP/JSON, of this signal; more resources, scopes and items than its size allows.
    """
    try:
        return check_unrepaired(signal, encoding, wire)
    except DamagedError:
        return finished(repair_in_turns(signal, wire, MAX_FIELDS))


def check_unrepaired(signal: Signal, encoding: Encoding, wire: bytes) -> Checked:
    """As `check`, but protobuf that has to be repaired is left alone: that takes long.

    Raises:
        DamagedError: protobuf that does not parse.
        NotTaken: not OTLP/JSON of this signal; more resources, scopes and items than its size allows.
    """
    return _check_json(signal, wire) if encoding is Encoding.JSON else _check_protobuf(signal, wire)


def check_in_turns(
    signal: Signal, wire: bytes, max_messages: int, *, much_expanded: bool = False
) -> Generator[None, None, Checked]:
    """As `check_unrepaired`, for large requests in protobuf: a piece at a time, each in at most about 20 ms.

    Raises:
        DamagedError: protobuf that does not parse.
        NotTaken: more messages (spans, attributes, values, ...) than `max_messages`, or than its size allows;
            its size allows fewer when it was `much_expanded` by decompression.
    """
    checked = Checked(signal, wire, 0)
    payloads: list[bytes] = []
    messages = 0
    allowed = min(max_messages, _FREE_MESSAGES + len(wire) // _BYTES_A_MESSAGE) if much_expanded else max_messages
    is_counted = much_expanded or len(wire) > 2 * max_messages  # no message takes less than two bytes
    try:
        for piece in pieces(signal, wire):
            if piece:
                if is_counted:
                    messages += count_messages(signal, piece)
                    if messages > allowed:
                        raise _too_many_messages(len(wire), allowed, max_messages)
                part = _check_protobuf(signal, piece)
                checked.items += part.items
                for reason, count in part.rejected.items():
                    checked.rejected[reason] = checked.rejected.get(reason, 0) + count
                payloads.append(part.payload if part.rejected else piece)
            yield
    except (WireError, DecodeError) as error:
        raise _not_protobuf(signal, error) from None
    if checked.rejected:
        # Requests one after the other are one request.
        checked.payload = b"".join(payloads)
    return checked


def repair_in_turns(
    signal: Signal, wire: bytes, max_messages: int, *, much_expanded: bool = False
) -> Generator[None, None, Checked]:
    """As `check_in_turns`, for what that found damaged: texts are repaired, and damaged items taken out, before.

    Raises:
        NotTaken: not protobuf of this signal; as of `check_in_turns`; more fields than `max_messages` in what is
            damaged.
    """
    try:
        repaired = yield from repair(signal, wire, max_messages)
    except WireError as error:
        raise _not_protobuf(signal, error) from None
    checked = yield from check_in_turns(signal, repaired.payload, max_messages, much_expanded=much_expanded)
    if repaired.dropped:
        checked.rejected["malformed"] = repaired.dropped
    checked.notes += repaired.problems
    _note_repaired(checked, repaired.texts, repaired.first)
    return checked


def _note_repaired(checked: Checked, texts: Counter[str], first: str) -> None:
    checked.repaired = texts
    if count := texts.total():
        where = f" (the first: {first})" if first else ""
        checked.notes.append(
            f"{_counted(count, 'text')} not in UTF-8{where}: what could not be read became U+FFFD; cut texts between "
            "characters, and send bytes as bytes"
        )


def _too_many_messages(size: int, allowed: int, max_messages: int) -> NotTaken:
    found = f"the request, of {size} bytes, holds more than {allowed} messages (spans, attributes, values, ...)"
    if allowed == max_messages:
        return NotTaken(
            "too_dense", f"{found}, the bound receivers.otlp.max_request_messages; send smaller batches, or raise it"
        )
    return NotTaken(
        "too_dense",
        f"{found}: the bound for what is compressed this far is {_FREE_MESSAGES}, and one for each {_BYTES_A_MESSAGE} "
        "bytes; send it uncompressed if this is meant",
    )


def _check_protobuf(signal: Signal, wire: bytes) -> Checked:
    try:
        request = REQUESTS[signal].FromString(wire)
    except DecodeError as error:
        raise _not_protobuf(signal, error) from None
    items, rejected = _take_out_bad_items(signal, request, len(wire))
    return Checked(signal, request.SerializeToString() if rejected else wire, items, rejected)


def _not_protobuf(signal: Signal, error: Exception) -> DamagedError:
    return DamagedError(f"not an OTLP {signal.name.lower()} request in protobuf: {error}")


def _check_json(signal: Signal, wire: bytes) -> Checked:
    try:
        document = parse_document(wire)
        read = read_request(signal, document.value)
    except OtlpJsonError as error:
        raise NotTaken("undecodable", f"not an OTLP {signal.name.lower()} request in JSON: {error}") from None
    items, rejected = _take_out_bad_items(signal, read.message, len(wire))
    notes = list(read.problems)
    if read.dropped:
        rejected["malformed"] = read.dropped
    if read.snake_case_keys:
        notes.append(f"{read.snake_case_keys} keys in snake_case were ignored; OTLP/JSON keys are lowerCamelCase")
    checked = Checked(signal, read.message.SerializeToString(), items, rejected, notes)
    if document.repaired_texts:
        _note_repaired(checked, Counter({_repaired_service(checked.payload): document.repaired_texts}), "")
    return checked


def _repaired_service(payload: bytes) -> str:
    """The service that repaired texts of JSON are counted for: of the first resource that holds one."""
    resources = fields(payload, 0, len(payload), RESOURCES)
    holds = (each for each in resources if payload.find(_REPLACEMENT, each.value, each.end) >= 0)
    return next((service_of_resource(payload, each) for each in holds), "")


def _take_out_bad_items(signal: Signal, request: Message, size: int) -> tuple[int, dict[str, int]]:
    """Delete bad spans from `request`, of `size` bytes; the number of items left, and what was rejected.

    Raises:
        NotTaken: it has more parts than a request of this size may have.
    """
    rejected: dict[str, int] = {}
    items = 0
    for container in _containers(signal, request, size):
        if signal is Signal.METRICS:
            items += sum(map(_data_points, container))
            continue
        if signal is Signal.TRACES and not all_ids_are_whole(container):
            for reason, _ in take_out_bad_spans(container):
                rejected[reason] = rejected.get(reason, 0) + 1
        items += len(container)
    return items, rejected


def _containers(signal: Signal, request: Message, size: int) -> Iterator[Any]:
    """`containers`, counted before each is walked: half a microsecond for two bytes is too much for others to wait."""
    left = parts_allowed(size)
    resources, scopes, items = PATHS[signal]
    by_resource = getattr(request, resources)
    left -= len(by_resource)
    for resource in by_resource if left >= 0 else ():
        by_scope = getattr(resource, scopes)
        left -= len(by_scope)
        for scope in by_scope if left >= 0 else ():
            container = getattr(scope, items)
            left -= len(container)
            if left >= 0:
                yield container
    if left < 0:
        raise too_many_parts(size)


def _data_points(metric: Any) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind else 0
