"""Spans, log records and traces as assembly gives them."""

from collections.abc import Sequence
from typing import Any

import yaml

from tracegrade.codec.span_reader import AttributeFilter, _Choice
from tracegrade.extract.registry import OURS
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.model.trace import Trace
from tracegrade.semconv import EXCEPTION_EVENT

TRACE_ID = bytes(15) + b"\x01"
_STATUS = {"unset": 0, "ok": 1, "error": 2}
_KINDS = {"internal": 1, "server": 2, "client": 3, "consumer": 5}
_KEYS = {
    *("id", "parent", "name", "at", "kind", "scope", "status", "attributes", "events", "dropped", "unread_keys"),
    "language",
}
_CHOICE = _Choice(AttributeFilter.of(OURS, frozenset(), by_shape=True))
# Ten times as quick as the one in Python, where PyYAML was built with it: cases are read a thousand times.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def span_id(number: int) -> str:
    """The hex id of the span with this number."""
    return f"{number:016x}"


def span(number: int, parent: int | None = None, *, trace: bytes = TRACE_ID, end: int = 10, **changes: object) -> Span:
    """A span with id `number`; ``parent=None`` is a root. `changes`: its fields that differ."""
    made = Span(
        trace_id=trace,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"" if parent is None else parent.to_bytes(8, "big"),
        name=f"span {number}",
        kind=1,
        start_ns=number,
        end_ns=end,
        flags=0x101,
        status_code=0,
        status_message="",
        attributes={},
        events=[],
        dropped_attributes_count=0,
        scope="test",
        resource=Resource({"service.name": "shop"}),
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def log_record(span_number: int, text: str, *, trace: bytes = TRACE_ID, time: int = 0) -> LogRecord:
    """A log record of the span with this number."""
    return LogRecord(trace, span_number.to_bytes(8, "big"), "test", SpanEvent("said", time, {"content": text}))


def read_case(text: str) -> dict[str, Any]:
    """The content of a YAML case: its spans and log records are in the short form that `trace` takes."""
    read: dict[str, Any] = yaml.load(text, _Loader)
    return read


def trace(spans: list[dict[str, Any]], trace_id: bytes = TRACE_ID, log_records: Sequence[dict[str, Any]] = ()) -> Trace:
    """A trace of spans in the short form.

    Each has ``id`` (a small number), and optionally ``parent``, ``name``, ``at: [start, end]`` (ms; default: in the
    order given), ``kind``, ``scope``, ``status`` (ok, error, or the message of an error), ``attributes`` and ``events``
    (objects of event name to attributes), ``dropped`` (how many attributes are missing),
    ``unread_keys``, ``language`` (of the SDK).
    Log records have ``span`` (its number), ``name``, and optionally ``scope``, ``at`` (ms) and ``attributes`` (with the
    members of their body).
    """
    made = [_from_short_form(short, place, trace_id) for place, short in enumerate(spans)]
    made.sort(key=lambda span: (span.start_ns, span.end_ns, span.span_id))
    records = [
        LogRecord(
            trace_id,
            int(short["span"]).to_bytes(8, "big"),
            short.get("scope", "test"),
            SpanEvent(
                short["name"],
                round(short["at"] * 1_000_000) if "at" in short else place,
                dict(short.get("attributes", {})),
            ),
        )
        for place, short in enumerate(log_records)
    ]
    return Trace(trace_id, "default", made, "end_of_input", [], len(made) + len(records), log_records=records)


def _from_short_form(short: dict[str, Any], place: int, trace_id: bytes) -> Span:
    unknown = short.keys() - _KEYS
    assert not unknown, f"span {short['id']}: unknown {sorted(unknown)}"
    start_ms, end_ms = short.get("at", [place * 10, place * 10 + 5])
    status = short.get("status", "unset")
    parent = short.get("parent")
    return span(
        int(short["id"]),
        None if parent is None else int(parent),
        trace=trace_id,
        name=short.get("name", "span"),
        kind=_KINDS[short.get("kind", "internal")],
        start_ns=round(start_ms * 1_000_000),
        end_ns=round(end_ms * 1_000_000),
        status_code=_STATUS.get(status, 2),
        status_message="" if status in _STATUS else status,
        attributes=dict(short.get("attributes", {})),
        events=[
            SpanEvent(name, round(end_ms * 1_000_000), dict(attributes or {}))
            for event in short.get("events", [])
            for name, attributes in event.items()
        ],
        dropped_attributes_count=short.get("dropped", 0),
        scope=short.get("scope", "test"),
        resource=Resource(
            {"service.name": "shop", "service.version": "1.2.3"}
            | ({"telemetry.sdk.language": short["language"]} if "language" in short else {})
        ),
        unread_keys=tuple(short["unread_keys"]) if "unread_keys" in short else None,
        is_whole=_is_whole(short),
    )


def _is_whole(short: dict[str, Any]) -> bool:
    """Whether decoding would keep the span whole, to be read by shape."""
    attributes = short.get("attributes", {})
    unusual = _CHOICE[tuple(attributes)].unusual
    name = short.get("name", "span")
    if unusual is None or name.startswith(OURS.own_names):
        return False
    events = {event for each in short.get("events", []) for event in each}
    texts = [value for value in attributes.values() if isinstance(value, str)]
    return unusual.is_worth_it(name, bool(events - OURS.events - {EXCEPTION_EVENT}), texts)
