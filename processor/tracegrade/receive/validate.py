"""What a request must be before it is journalled: readable, and with whole ids in every span.

Spans with bad ids are taken out, the rest of their request is kept: one broken instrumentation must not cost others
their data. Only ids are touched: reading every attribute would cost several times the parsing.
"""

from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import DecodeError, Message

from tracegrade.journal.record import Encoding
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import OtlpJsonError, parse_document, read_request
from tracegrade.otlp.request import REQUESTS, containers

_ZERO_TRACE_ID = bytes(16)
_ZERO_SPAN_ID = bytes(8)

REJECT_REASONS = {
    "invalid_trace_id": "trace ids must be 16 bytes and not all zero",
    "invalid_span_id": "span ids must be 8 bytes and not all zero",
    "invalid_parent_span_id": "parent span ids must be empty or 8 bytes",
    "malformed": "values must have the type of their field",
}


class UndecodableError(TraceGradeError):
    """A request that cannot be read at all; sending it again will not help."""


@dataclass(slots=True)
class Checked:
    """A readable request.

    ``payload`` is the protobuf to journal: the very bytes that came unless they were JSON or spans were rejected.
    ``items`` counts what it holds: spans, log records or data points. ``rejected`` counts rejected spans by reason,
    ``notes`` says more for the sender's eyes.
    """

    payload: bytes
    items: int
    rejected: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """What the sender is told: English, why and what to do; "" when everything was taken without remark."""
        parts = [
            f"{count} span{'' if count == 1 else 's'} rejected: {REJECT_REASONS[reason]}"
            for reason, count in self.rejected.items()
        ]
        return "; ".join(parts + self.notes)


def check(signal: Signal, encoding: Encoding, wire: bytes) -> Checked:
    """Read a request and take out what cannot be accepted.

    Raises:
        UndecodableError: not protobuf, or not OTLP/JSON, of this signal.
    """
    if encoding is Encoding.JSON:
        return _check_json(signal, wire)
    try:
        request = REQUESTS[signal].FromString(wire)
    except DecodeError as error:
        raise UndecodableError(f"not an OTLP {signal.name.lower()} request in protobuf: {error}") from None
    items, rejected = _take_out_bad_items(signal, request)
    return Checked(request.SerializeToString() if rejected else wire, items, rejected)


def _check_json(signal: Signal, wire: bytes) -> Checked:
    try:
        read = read_request(signal, parse_document(wire))
    except OtlpJsonError as error:
        raise UndecodableError(f"not an OTLP {signal.name.lower()} request in JSON: {error}") from None
    items, rejected = _take_out_bad_items(signal, read.message)
    notes = list(read.problems)
    if read.dropped:
        rejected["malformed"] = read.dropped
    if read.snake_case_keys:
        notes.append(f"{read.snake_case_keys} keys in snake_case were ignored; OTLP/JSON keys are lowerCamelCase")
    return Checked(read.message.SerializeToString(), items, rejected, notes)


def _take_out_bad_items(signal: Signal, request: Message) -> tuple[int, dict[str, int]]:
    """Delete bad spans from `request`; the number of items left, and what was rejected."""
    rejected: dict[str, int] = {}
    items = 0
    for container in containers(signal, request):
        if signal is Signal.METRICS:
            items += sum(map(_data_points, container))
            continue
        if signal is Signal.TRACES and not _all_ids_are_whole(container):
            _take_out_bad_spans(container, rejected)
        items += len(container)
    return items, rejected


def _all_ids_are_whole(spans: Any) -> bool:
    """`_bad_id` of every span at once, without a call for each: all of the work that is done per span."""
    for span in spans:
        trace_id, span_id, parent_span_id = span.trace_id, span.span_id, span.parent_span_id
        if (
            len(trace_id) != 16
            or len(span_id) != 8
            or (parent_span_id and len(parent_span_id) != 8)
            or trace_id == _ZERO_TRACE_ID
            or span_id == _ZERO_SPAN_ID
        ):
            return False
    return True


def _take_out_bad_spans(spans: Any, rejected: dict[str, int]) -> None:
    kept = []
    for span in spans:
        if reason := _bad_id(span):
            rejected[reason] = rejected.get(reason, 0) + 1
        else:
            kept.append(span)
    # One by one from within would take quadratic time.
    del spans[:]
    spans.extend(kept)


def _bad_id(span: Any) -> str:
    """The reason to reject `span`, "" when its ids are whole."""
    if len(span.trace_id) != 16 or span.trace_id == _ZERO_TRACE_ID:
        return "invalid_trace_id"
    if len(span.span_id) != 8 or span.span_id == _ZERO_SPAN_ID:
        return "invalid_span_id"
    if span.parent_span_id and len(span.parent_span_id) != 8:
        return "invalid_parent_span_id"
    return ""


def _data_points(metric: Any) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind else 0
