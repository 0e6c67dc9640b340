"""The OTLP requests that one test has collected, and whether more are to come."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import Condition
from time import monotonic

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.model.signal import Signal
from tracegrade.model.span import PARENT_IS_REMOTE
from tracegrade.otlp.files.source_request import SourceRequest

Request = Callable[[], tuple[Signal, bytes]]


@dataclass(frozen=True, slots=True)
class Arrived:
    """The place of one span in its trace; ``is_root``: no parent of it belongs to the test."""

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    is_root: bool


@dataclass(slots=True)
class _Trace:
    spans: set[bytes] = field(default_factory=set)
    missing: set[bytes] = field(default_factory=set)
    has_root: bool = False

    def add(self, span: Arrived) -> None:
        self.spans.add(span.span_id)
        self.missing.discard(span.span_id)
        if span.is_root:
            self.has_root = True
        elif span.parent_span_id not in self.spans:
            self.missing.add(span.parent_span_id)

    @property
    def is_whole(self) -> bool:
        return self.has_root and not self.missing


class Collected:
    """Requests in the order in which they came; any thread may add some."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._requests: list[Request] = []
        self._traces: dict[bytes, _Trace] = {}
        self._begun: set[bytes] = set()  # spans of this process, by span id
        self._open: dict[bytes, str] = {}  # those that have not ended, with their names
        self._last_s = 0.0

    def begin(self, span_id: bytes, name: str) -> None:
        """A span began in this process."""
        with self._changed:
            self._begun.add(span_id)
            self._open[span_id] = name

    def end(self, span_id: bytes) -> None:
        """That span ended; `add` was called before if it is collected."""
        with self._changed:
            self._open.pop(span_id, None)
            self._changed.notify_all()

    def add(self, request: Request, spans: Iterable[Arrived] = ()) -> None:
        """One more request, which holds `spans`; `request` makes it when it is read."""
        with self._changed:
            self._requests.append(request)
            self._last_s = monotonic()
            for span in spans:
                self._traces.setdefault(span.trace_id, _Trace()).add(span)
            self._changed.notify_all()

    def receive(self, signal: Signal, payload: bytes) -> None:
        """One more request, from another process."""
        self.add(lambda: (signal, payload), _spans_in(payload) if signal is Signal.TRACES else ())

    def clear(self) -> None:
        """Forget what was collected; spans that are open now are collected when they end."""
        with self._changed:
            self._requests.clear()
            self._traces.clear()

    def knows(self, span_id: bytes) -> bool:
        """Whether this span began in this process while the test collected."""
        with self._changed:
            return span_id in self._begun

    def open_name(self, span_id: bytes) -> str | None:
        """The name of this span if it has not ended, else None."""
        with self._changed:
            return self._open.get(span_id)

    @property
    def open_names(self) -> list[str]:
        """The names of all spans that have not ended."""
        with self._changed:
            return sorted(set(self._open.values()))

    @property
    def traces(self) -> int:
        """The number of traces with spans here."""
        with self._changed:
            return len(self._traces)

    def wait(self, traces: int, within_s: float, quiet_s: float = 0.0) -> None:
        """Wait for what is still to come.

        Args:
            traces: how many are expected.
            within_s: wait no longer than this.
            quiet_s: nothing came for as long as this; 0 where whatever is to come is known to have begun.

        Returns:
            When every span has ended, no trace lacks one, there are as many as expected, and it was quiet; or late.
        """
        deadline_s = monotonic() + within_s
        with self._changed:
            while (now_s := monotonic()) < deadline_s:
                settled = self._is_settled(traces)
                quiet_at_s = self._last_s + quiet_s
                if settled and now_s >= quiet_at_s:
                    return
                self._changed.wait(min(deadline_s, quiet_at_s if settled else deadline_s) - now_s)

    def _is_settled(self, traces: int) -> bool:
        is_whole = all(trace.is_whole for trace in self._traces.values())
        return is_whole and not self._open and len(self._traces) >= traces

    def requests(self) -> list[SourceRequest]:
        """Everything that was collected, in its order."""
        with self._changed:
            requests = list(self._requests)
        return [SourceRequest(*request(), "the test") for request in requests]


def _spans_in(payload: bytes) -> Iterator[Arrived]:
    request = ExportTraceServiceRequest.FromString(payload)
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                is_root = not span.parent_span_id or span.flags & PARENT_IS_REMOTE == PARENT_IS_REMOTE
                yield Arrived(span.trace_id, span.span_id, span.parent_span_id, is_root)
