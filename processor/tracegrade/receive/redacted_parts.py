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
    """One request on its way; ``counts`` is what was replaced so far, ``held`` how many parts were parsed.

    ``places`` are those at which something may be found, apart and in order.
    """

    redaction: RequestRedaction
    signal: Signal
    data: bytes
    tenant: str
    on_found: OnFound | None = None
    counts: Counter[Redaction] = field(default_factory=Counter)
    held: int = 0
    places: Sequence[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        """Look where something may be found."""
        if not self.redaction.needs_all:
            self.places = merged(self.redaction.scanner.places(searched(self.signal, self.data)))

    def request(self) -> Generator[None, None, bytes]:
        """The request as it may be kept: its very bytes when nothing in it was to be replaced; some parts at a time."""
        data = self.data
        if not (self.redaction.needs_all or self.places):
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
                    is_changed = True
                else:
                    pieces.append(data[found.tag : at])
                continue
            other = (yield from self._resource(found)) if self._may_hold(found) else None
            is_changed |= other is not None
            pieces += [data[found.tag : at]] if other is None else [head(RESOURCES, len(other)), other]
        return b"".join(pieces) if is_changed else data

    def _resource(self, resource: Field) -> Generator[None, None, bytes | None]:
        """The content of a resource with its scopes; None when it stays."""
        own, may_hold, inner = self._split(resource, SCOPES)
        service = ""
        if self.redaction.needs_all:
            service = service_of(_MESSAGES[self.signal]["resource"].FromString(own))
        policy = self.redaction.policy_of(service, self.tenant, self.on_found)
        own_after = self._redacted("resource", own, policy) if may_hold else None
        scopes = []
        for scope in inner:
            scopes.append((yield from self._scope(scope, policy)) if self._may_hold(scope) else None)
        return self._joined(own, own_after, SCOPES, inner, scopes)

    def _scope(self, scope: Field, policy: SenderPolicy) -> Generator[None, None, bytes | None]:
        own, may_hold, inner = self._split(scope, ITEMS)
        own_after = self._redacted("scope", own, policy) if may_hold else None
        data = self.data
        items = []
        for number, item in enumerate(inner, 1):
            held = self.held
            may_hold = self._may_hold(item)
            items.append(self._redacted("item", data[item.value : item.end], policy) if may_hold else None)
            if (self.held > held and self.held % _HELD_A_TURN == 0) or number % _ITEMS_A_TURN == 0:
                yield
        return self._joined(own, own_after, ITEMS, inner, items)

    def _split(self, message: Field, number: int) -> tuple[bytes, bool, list[Field]]:
        """The fields of `message` but those of `number`, as bytes, and whether they may hold something; and those."""
        data = self.data
        own: list[bytes] = []
        inner: list[Field] = []
        may_hold = False
        at = message.value
        while at < message.end:
            found = field_at(data, at)
            if found.number == number and found.wire_type == BYTES:
                inner.append(found)
            else:
                own.append(data[at : found.end])
                may_hold = may_hold or self._may_hold(found)
            at = found.end
        return b"".join(own), may_hold, inner

    def _joined(
        self, own: bytes, own_after: bytes | None, number: int, inner: list[Field], after: list[bytes | None]
    ) -> bytes | None:
        if own_after is None and all(other is None for other in after):
            return None
        data = self.data
        pieces = [own if own_after is None else own_after]
        for found, other in zip(inner, after, strict=True):
            pieces += [data[found.tag : found.end]] if other is None else [head(number, len(other)), other]
        return b"".join(pieces)

    def _redacted(self, part: Part, wire: bytes, policy: SenderPolicy) -> bytes | None:
        """The message `wire` as it may be kept, None when it stays."""
        if not wire:
            return None
        self.held += 1
        message = _MESSAGES[self.signal][part].FromString(wire)
        counts = self.redaction.redact(self.signal, part, message, policy)
        if not counts:
            return None
        self.counts += counts
        return bytes(message.SerializeToString())

    def _may_hold(self, part: Field) -> bool:
        """Whether something may be found in this part of the request."""
        if self.redaction.needs_all:
            return True
        number = bisect_right(self.places, part.tag, key=_end)
        return number < len(self.places) and self.places[number][0] < part.end


def merged(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _end(place: tuple[int, int]) -> int:
    return place[1]
