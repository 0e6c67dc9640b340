"""One request as several, each with the spans or log records of one trace.

Nothing is decoded: a span or log record keeps its bytes, and goes with those of its scope and resource.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tracegrade.model.errors import NotTaken
from tracegrade.model.signal import Signal
from tracegrade.otlp.encode import head
from tracegrade.otlp.wire import BYTES, ITEMS, RESOURCES, SCOPES, TRACE_ID, Field, field_at, fields, trace_id_of

_ITEM_TAG = ITEMS << 3 | BYTES
_SPAN_ID_HEAD = bytes((TRACE_ID[Signal.TRACES] << 3 | BYTES, 16))  # how every encoder begins a span
_NO_TRACE = bytes(16)


class Part(NamedTuple):
    """A request with what is of one trace; ``trace_id`` is empty for log records that name no trace."""

    trace_id: bytes
    items: int
    payload: bytes


class _OfTrace:
    """Items of one trace at one level: their number and bytes."""

    __slots__ = ("items", "parts")

    def __init__(self) -> None:
        self.items = 0
        self.parts: list[bytes] = []


_Found = dict[bytes, _OfTrace]


def by_trace(signal: Signal, payload: bytes, max_bytes: int) -> list[Part]:
    """The parts of `payload`, in the order in which their traces begin.

    Args:
        signal: traces or logs.
        payload: the request; it was parsed before.
        max_bytes: the largest part. What is of one trace is divided further where it is larger.

    Returns:
        The payload itself where it is all of one trace and not larger; else parts in which the order of items is kept.
        Nothing for a request without items.

    Raises:
        NotTaken: one item is too large for a part of its own.
    """
    found: _Found = {}
    for resource in fields(payload, 0, len(payload), RESOURCES):
        _add_resource(signal, payload, resource, found)
    parts = []
    for trace_id, of_trace in found.items():
        whole = payload if len(found) == 1 else b"".join(of_trace.parts)
        if len(whole) <= max_bytes:
            parts.append(Part(trace_id, of_trace.items, whole))
        else:
            parts += (Part(trace_id, items, part) for items, part in _divided(whole, max_bytes))
    return parts


def _add_resource(signal: Signal, payload: bytes, resource: Field, found: _Found) -> None:
    of_resource: _Found = {}
    own = []
    at = resource.value
    while at < resource.end:
        field = field_at(payload, at)
        if field.number == SCOPES and field.wire_type == BYTES:
            _add_scope(signal, payload, field, of_resource)
        else:
            own.append(payload[at : field.end])
        at = field.end
    _add_all(found, of_resource, RESOURCES, b"".join(own))


def _add_scope(signal: Signal, payload: bytes, scope: Field, found: _Found) -> None:
    own, runs = _runs(signal, payload, scope)
    of_scope: _Found = {}
    for trace_id, items, begin, end in runs:
        if (of_trace := of_scope.get(trace_id)) is None:
            of_trace = of_scope[trace_id] = _OfTrace()
        of_trace.items += items
        of_trace.parts.append(payload[begin:end])
    _add_all(found, of_scope, SCOPES, own)


def _add_all(found: _Found, inner: _Found, number: int, own: bytes) -> None:
    """Add what is in `inner` to `found`, each trace's as one element of the field `number` that begins with `own`."""
    for trace_id, part in inner.items():
        if (of_trace := found.get(trace_id)) is None:
            of_trace = found[trace_id] = _OfTrace()
        content = b"".join(part.parts)
        of_trace.items += part.items
        of_trace.parts += (head(number, len(own) + len(content)), own, content)


def _runs(signal: Signal, payload: bytes, scope: Field) -> tuple[bytes, list[tuple[bytes, int, int, int]]]:
    """The fields of a scope that are no items; its items, neighbours of one trace together: id, number, from, to."""
    own: list[bytes] = []
    runs: list[tuple[bytes, int, int, int]] = []
    of_run, items, begin, run_end = b"", 0, -1, -1
    id_field = TRACE_ID[signal]
    is_spans = signal is Signal.TRACES
    at, end = scope.value, scope.end
    while at < end:
        trace_id = b""
        # All the work that is done for each span: most are shorter than 16 KiB and begin with their trace id. (One that
        # has two, which nobody writes, goes with the first.)
        if is_spans and payload[at] == _ITEM_TAG:
            length = payload[at + 1]
            value = at + 2
            if length > 127:
                length += (payload[value] - 1) << 7
                value += 1
            if (length < 128 or payload[value - 1] < 128) and payload[value : value + 2] == _SPAN_ID_HEAD:
                trace_id, following = payload[value + 2 : value + 18], value + length
        if not trace_id:
            field = field_at(payload, at)
            following = field.end
            if field.number != ITEMS or field.wire_type != BYTES:
                own.append(payload[at:following])
                at = following
                continue
            trace_id = _known(trace_id_of(payload, field, id_field))
        if trace_id == of_run and at == run_end:
            items += 1
        else:
            if items:
                runs.append((of_run, items, begin, run_end))
            of_run, items, begin = trace_id, 1, at
        run_end = at = following
    if items:
        runs.append((of_run, items, begin, run_end))
    return b"".join(own), runs


def _known(trace_id: bytes) -> bytes:
    """The id, empty when it is none; log records may name no trace."""
    return trace_id if len(trace_id) == 16 and trace_id != _NO_TRACE else b""


def _divided(payload: bytes, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """`payload` as requests of at most `max_bytes`, and how many items each holds; every item in a scope of its own."""
    items, size = 0, 0
    parts: list[bytes] = []
    for resource in fields(payload, 0, len(payload), RESOURCES):
        of_resource = _without(payload, resource, SCOPES)
        for scope in fields(payload, resource.value, resource.end, SCOPES):
            of_scope = _without(payload, scope, ITEMS)
            for item in fields(payload, scope.value, scope.end, ITEMS):
                inner = of_scope + payload[item.tag : item.end]
                inner = of_resource + head(SCOPES, len(inner)) + inner
                part = head(RESOURCES, len(inner)) + inner
                if len(part) > max_bytes:
                    raise NotTaken(
                        "too_large",
                        f"a span or log record of {len(part)} bytes with its resource; expected at most {max_bytes}",
                    )
                if size + len(part) > max_bytes:
                    yield items, b"".join(parts)
                    items, parts, size = 0, [], 0
                items += 1
                parts.append(part)
                size += len(part)
    if items:
        yield items, b"".join(parts)


def _without(payload: bytes, message: Field, number: int) -> bytes:
    """The fields of `message` but those of this number."""
    own = []
    at = message.value
    while at < message.end:
        field = field_at(payload, at)
        if field.number != number or field.wire_type != BYTES:
            own.append(payload[at : field.end])
        at = field.end
    return b"".join(own)
