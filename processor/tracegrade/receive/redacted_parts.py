"""Requests taken apart as bytes, so that only those parts are parsed that may hold what is to be redacted."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tracegrade.model.signal import Signal
from tracegrade.otlp.encode import head
from tracegrade.otlp.wire import BYTES, ITEMS, RESOURCES, SCOPES, Field, field_at
from tracegrade.receive.searched import searched
from tracegrade.redact.requests.item import UNKNOWN_FIELDS, Redaction, SenderPolicy
from tracegrade.redact.requests.request import OnFound, Part, RequestRedaction, service_of
from tracegrade.redact.scan import Place

_MESSAGES: dict[Signal, dict[Part, Any]] = {
    Signal.TRACES: {"resource": ResourceSpans, "scope": ScopeSpans, "item": Span},
    Signal.LOGS: {"resource": ResourceLogs, "scope": ScopeLogs, "item": LogRecord},
    Signal.METRICS: {"resource": ResourceMetrics, "scope": ScopeMetrics, "item": Metric},
}


# What is done at a time: each that may hold something takes a millisecond or two, each other some microseconds.
_HELD_A_TURN = 16
_ITEMS_A_TURN = 2048


@dataclass(slots=True)
class RedactedParts:
    """One request on its way; ``counts`` is what was replaced so far."""

    redaction: RequestRedaction
    signal: Signal
    data: bytes
    tenant: str
    on_found: OnFound | None = None
    counts: Counter[Redaction] = field(default_factory=Counter)
    _places: Sequence[Place] = ()
    _signs: Sequence[tuple[int, int]] = ()  # of the places, apart and in order
    _searched: list[tuple[int, int]] = field(default_factory=list)
    _held: int = 0  # how many parts were parsed

    def __post_init__(self) -> None:
        """Look where something may be found."""
        if not self.redaction.needs_all:
            self._places = list(self.redaction.scanner.places(searched(self.signal, self.data)))
            self._signs = _merged((place.start, place.end) for place in self._places)

    def request(self) -> Generator[None, None, bytes]:
        """The request as it may be kept: its very bytes when nothing in it was to be replaced; some parts at a time."""
        data = self.data
        if not (self.redaction.needs_all or self._places):
            return data
        pieces: list[bytes] = []
        is_changed = False
        at = 0
        while at < len(data):
            found = field_at(data, at)
            at = found.end
            if found.number != RESOURCES or found.wire_type != BYTES:
                if self._may_hold(found):  # nobody can say what it holds
                    self.counts[Redaction("attributes", "", UNKNOWN_FIELDS, "drop")] += 1
                    self._searched.append((found.tag, at))
                    is_changed = True
                else:
                    pieces.append(data[found.tag : at])
                continue
            other = (yield from self._resource(found)) if self._may_hold(found) else None
            is_changed |= other is not None
            pieces += [data[found.tag : at]] if other is None else [head(RESOURCES, len(other)), other]
        self._learn()
        return b"".join(pieces) if is_changed else data

    def _learn(self) -> None:
        """Remember the places around which nothing can be found, whatever else stands in the item."""
        searched_parts = _merged(self._searched)
        for place in self._places:
            if place.digest is not None and not _overlaps(searched_parts, place.begin, place.stop):
                self.redaction.scanner.learn(place.digest)

    def _resource(self, resource: Field) -> Generator[None, None, bytes | None]:
        """The content of a resource with its scopes; None when it stays."""
        own, inner = self._split(resource, SCOPES)
        service = ""
        if self.redaction.needs_all:
            service = service_of(_MESSAGES[self.signal]["resource"].FromString(self._bytes(own)))
        policy = self.redaction.policy_of(service, self.tenant, self.on_found)
        own_after = self._redacted("resource", own, policy)
        scopes = []
        for scope in inner:
            scopes.append((yield from self._scope(scope, policy)) if self._may_hold(scope) else None)
        return self._joined(own, own_after, SCOPES, inner, scopes)

    def _scope(self, scope: Field, policy: SenderPolicy) -> Generator[None, None, bytes | None]:
        own, inner = self._split(scope, ITEMS)
        own_after = self._redacted("scope", own, policy)
        items = []
        for number, item in enumerate(inner, 1):
            held = self._held
            items.append(self._redacted("item", [item], policy))
            if (self._held > held and self._held % _HELD_A_TURN == 0) or number % _ITEMS_A_TURN == 0:
                yield
        return self._joined(own, own_after, ITEMS, inner, items)

    def _split(self, message: Field, number: int) -> tuple[list[Field], list[Field]]:
        """The fields of `message` but those of `number`, and those."""
        own: list[Field] = []
        inner: list[Field] = []
        at = message.value
        while at < message.end:
            found = field_at(self.data, at)
            (inner if found.number == number and found.wire_type == BYTES else own).append(found)
            at = found.end
        return own, inner

    def _joined(
        self, own: list[Field], own_after: bytes | None, number: int, inner: list[Field], after: list[bytes | None]
    ) -> bytes | None:
        if own_after is None and all(other is None for other in after):
            return None
        data = self.data
        pieces = [self._bytes(own) if own_after is None else own_after]
        for found, other in zip(inner, after, strict=True):
            pieces += [data[found.tag : found.end]] if other is None else [head(number, len(other)), other]
        return b"".join(pieces)

    def _redacted(self, part: Part, held: list[Field], policy: SenderPolicy) -> bytes | None:
        """A part of the request, an item or these fields, as it may be kept; None when it stays."""
        if not any(map(self._may_hold, held)):
            return None
        self._held += 1
        wire = self.data[held[0].value : held[0].end] if part == "item" else self._bytes(held)
        message = _MESSAGES[self.signal][part].FromString(wire)
        counts = self.redaction.redact(self.signal, part, message, policy)
        if counts is None:
            return None
        self._searched += [(found.tag, found.end) for found in held]
        if not counts:
            return None
        self.counts += counts
        return bytes(message.SerializeToString())

    def _bytes(self, fields: list[Field]) -> bytes:
        return b"".join(self.data[found.tag : found.end] for found in fields)

    def _may_hold(self, part: Field) -> bool:
        """Whether something may be found in this part of the request."""
        if self.redaction.needs_all:
            return True
        return _overlaps(self._signs, part.tag, part.end)


def _merged(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _overlaps(places: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether one of `places`, apart and in order, has something in common with what is from `start` to `end`."""
    number = bisect_right(places, start, key=lambda place: place[1])
    return number < len(places) and places[number][0] < end
