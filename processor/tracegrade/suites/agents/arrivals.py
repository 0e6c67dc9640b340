"""What came from agents under test, told apart by unit.

A unit's are the spans of its own trace id, and those of traces of which a span or its resource says the unit's id. An
agent that says only the case (``tracegrade.case.id``) is understood where one unit of that case is under way; one that
says nothing where one unit is under way at all and no other agent can be meant, as with a command.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Condition, Event
from time import monotonic
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade import semconv as s
from tracegrade.model.signal import Signal
from tracegrade.model.span import PARENT_IS_REMOTE
from tracegrade.otlp.request import PATHS
from tracegrade.suites.models.pace import Stopped

MAX_BYTES = 64 * 1024 * 1024
"""Most that is kept of one unit."""

_MAX_UNNAMED_BYTES = 16 * 1024 * 1024  # of spans whose unit is not known yet
_LOOK_S = 0.1
_REQUESTS: dict[Signal, Any] = {Signal.TRACES: ExportTraceServiceRequest, Signal.LOGS: ExportLogsServiceRequest}


@dataclass(slots=True)
class OneTrace:
    """What came of one trace of an agent; ``spans`` and ``logs`` are requests that hold nothing else."""

    spans: Any = field(default_factory=ExportTraceServiceRequest)
    logs: Any = field(default_factory=ExportLogsServiceRequest)
    span_ids: set[bytes] = field(default_factory=set)
    parent_ids: set[bytes] = field(default_factory=set)
    byte_count: int = 0


@dataclass(slots=True)
class Arrived:
    """What came of one unit: its traces by id, in the order in which they came.

    ``other_cases`` are cases that its spans named, and that it is not; ``is_cut``: more came than is kept.
    """

    case: str
    root_id: bytes
    traces: dict[bytes, OneTrace] = field(default_factory=dict)
    other_cases: set[str] = field(default_factory=set)
    is_cut: bool = False
    last_s: float = 0.0

    @property
    def has_spans(self) -> bool:
        """Whether any span came."""
        return any(trace.span_ids for trace in self.traces.values())

    @property
    def missing(self) -> list[bytes]:
        """The ids of spans that others name as their parent in this process or service, and that did not come."""
        known = {self.root_id}.union(*(trace.span_ids for trace in self.traces.values()))
        return sorted(set().union(*(trace.parent_ids for trace in self.traces.values())) - known)


class Arrivals:
    """All units under way; the listener's thread adds, those that run units wait and take."""

    def __init__(self, *, may_be_unnamed: bool) -> None:
        """Nothing yet; `may_be_unnamed`: spans that say nothing are of the only unit that is under way."""
        self._changed = Condition()
        self._may_be_unnamed = may_be_unnamed
        self._units: dict[bytes, Arrived] = {}
        self._owners: dict[bytes, bytes] = {}  # unit by trace id; those of ended units too
        self._unnamed: dict[bytes, OneTrace] = {}
        self._unnamed_bytes = 0
        self.late_spans = 0
        """Spans that came after their unit had ended."""
        self.unnamed_spans = 0
        """Spans that said no unit when they came."""

    def begin(self, unit_id: bytes, case: str, root_id: bytes) -> None:
        """Take what comes for this unit; `root_id` is the span id that it is told as parent."""
        with self._changed:
            self._units[unit_id] = Arrived(case, root_id, last_s=monotonic())
            self._owners[unit_id] = unit_id

    def take(self, signal: Signal, payload: bytes) -> None:
        """One request, from the listener."""
        if signal not in _REQUESTS:
            return
        request = _REQUESTS[signal].FromString(payload)
        resources, scopes, items = PATHS[signal]
        with self._changed:
            for resource in getattr(request, resources):
                said = _unit_attributes(resource.resource.attributes)
                for scope in getattr(resource, scopes):
                    for item in getattr(scope, items):
                        self._place(signal, item, resource, scope, said | _unit_attributes(item.attributes))
            self._changed.notify_all()

    def _place(self, signal: Signal, item: Any, resource: Any, scope: Any, said: Mapping[str, str]) -> None:
        trace_id = item.trace_id
        owner = self._owner(trace_id, said)
        is_span = signal is Signal.TRACES
        if owner is None:
            self.unnamed_spans += is_span
            self._unnamed_bytes += _add(self._unnamed.setdefault(trace_id, OneTrace()), signal, item, resource, scope)
            while self._unnamed_bytes > _MAX_UNNAMED_BYTES:
                self._unnamed_bytes -= self._unnamed.pop(next(iter(self._unnamed))).byte_count
            return
        unit = self._units.get(owner)
        if unit is None:
            self.late_spans += is_span
            return
        if trace_id not in unit.traces:
            self._owners[trace_id] = owner
            unit.traces[trace_id] = before = self._unnamed.pop(trace_id, None) or OneTrace()
            self._unnamed_bytes -= before.byte_count
            self.unnamed_spans -= len(before.span_ids)
        if (case := said.get(s.CASE_ID, unit.case)) != unit.case:
            unit.other_cases.add(case)
        unit.last_s = monotonic()
        if sum(trace.byte_count for trace in unit.traces.values()) < MAX_BYTES:
            _add(unit.traces[trace_id], signal, item, resource, scope)
        else:
            unit.is_cut = True

    def _owner(self, trace_id: bytes, said: Mapping[str, str]) -> bytes | None:
        """The unit that a span belongs to, which may have ended; None where that is not known."""
        if (owner := self._owners.get(trace_id)) is not None:
            return owner
        named = bytes.fromhex(unit) if _is_hex(unit := said.get(s.SUITE_UNIT, "")) else b""
        if named in self._owners:
            return named
        if self._may_be_unnamed:
            return next(iter(self._units)) if len(self._units) == 1 else None
        of_case = [unit_id for unit_id, unit in self._units.items() if unit.case == said.get(s.CASE_ID)]
        return of_case[0] if len(of_case) == 1 else None

    def wait(self, unit_id: bytes, quiet_s: float, within_s: float, stop: Event) -> None:
        """Wait until spans have come, none is missing, and nothing came for `quiet_s`; not longer than `within_s`.

        Raises:
            Stopped: `stop` was set meanwhile.
        """
        begun_s = monotonic()
        with self._changed:
            unit = self._units[unit_id]
            while (now_s := monotonic()) < begun_s + within_s:
                if stop.is_set():
                    raise Stopped
                is_whole = unit.has_spans and not unit.missing
                quiet_at_s = max(unit.last_s, begun_s) + quiet_s
                if is_whole and now_s >= quiet_at_s:
                    return
                self._changed.wait(min(_LOOK_S, quiet_at_s - now_s if is_whole else _LOOK_S))

    def end(self, unit_id: bytes) -> Arrived:
        """What came of this unit; what comes from now on is late."""
        with self._changed:
            return self._units.pop(unit_id)


def _add(trace: OneTrace, signal: Signal, item: Any, resource: Any, scope: Any) -> int:
    """Add a span or log record to its trace; returns its size in bytes."""
    kept = trace.spans if signal is Signal.TRACES else trace.logs
    resources, scopes, items = PATHS[signal]
    lists = getattr(kept, resources)
    if not lists or lists[-1].resource != resource.resource:
        lists.add(schema_url=resource.schema_url).resource.CopyFrom(resource.resource)
    within = getattr(lists[-1], scopes)
    if not within or within[-1].scope != scope.scope:
        within.add(schema_url=scope.schema_url).scope.CopyFrom(scope.scope)
    getattr(within[-1], items).add().CopyFrom(item)
    if signal is Signal.TRACES:
        trace.span_ids.add(item.span_id)
        if item.parent_span_id and item.flags & PARENT_IS_REMOTE != PARENT_IS_REMOTE:
            trace.parent_ids.add(item.parent_span_id)
    size: int = item.ByteSize()
    trace.byte_count += size
    return size


def _unit_attributes(attributes: Any) -> dict[str, str]:
    """What a resource or a span says of its unit."""
    return {item.key: item.value.string_value for item in attributes if item.key in (s.CASE_ID, s.SUITE_UNIT)}


def _is_hex(text: str) -> bool:
    return len(text) == 32 and all(digit in "0123456789abcdef" for digit in text)
