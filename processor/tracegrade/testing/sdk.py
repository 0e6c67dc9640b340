"""Spans and log records from the OpenTelemetry SDK of this process, while a test collects them.

One processor is added to every provider that the program under test uses: the one in force, those that are made or set
during the test, and those that a test names. It stays there, and does nothing when no test collects. Where no tracer
provider is set, one of ours is for the time of the test, and gives way when the program sets its own.

OpenTelemetry lets a tracer provider be set once for ever. So that ours may be replaced, and taken away at the end,
its guard is ours during a test: the two names of `opentelemetry.trace` used for that are those that OpenTelemetry's own
tests reset.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import pytest
from opentelemetry import trace
from opentelemetry._logs import get_logger_provider
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from tracegrade.model.signal import Signal
from tracegrade.model.span import PARENT_IS_REMOTE
from tracegrade.testing.collected import Arrived, Collected

_collecting: tuple[Collected, ...] = ()


class _Spans(SpanProcessor):
    """Hands spans to whoever collects now."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        for collected in _collecting:
            collected.begin(_span_id(span.context), span.name)

    def on_end(self, span: ReadableSpan) -> None:
        for collected in _collecting:
            _collect(collected, span)


class _LogRecords(LogRecordProcessor):
    """Hands log records to whoever collects now."""

    def on_emit(self, log_record: Any) -> None:
        for collected in _collecting:
            collected.add(lambda: (Signal.LOGS, encode_logs([log_record]).SerializeToString()))

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return True


_SPANS, _LOG_RECORDS = _Spans(), _LogRecords()
_joined: "WeakSet[Any]" = WeakSet()


def join(provider: object) -> bool:
    """Collect the spans, or log records, of `provider` too; False when it takes no processor."""
    if provider in _joined:
        return True
    for name, processor in (("add_span_processor", _SPANS), ("add_log_record_processor", _LOG_RECORDS)):
        if (add := getattr(provider, name, None)) is not None:
            add(processor)
            _joined.add(provider)
            return True
    return False


@contextmanager
def collecting(into: Collected) -> Iterator[None]:
    """Collect what begins in this process from now on."""
    global _collecting
    with pytest.MonkeyPatch.context() as patched:
        join(trace.get_tracer_provider())
        join(get_logger_provider())
        for kind in (TracerProvider, LoggerProvider):
            patched.setattr(kind, "__init__", _joining(kind.__init__))
        _collecting = (*_collecting, into)
        try:
            with _provider_in_force(patched):
                yield
        finally:
            _collecting = tuple(other for other in _collecting if other is not into)


def _joining(make: Callable[..., None]) -> Callable[..., None]:
    """As `make`, which makes a provider, and its spans are collected."""

    def made(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        join(self)

    return made


@contextmanager
def _provider_in_force(patched: pytest.MonkeyPatch) -> Iterator[None]:
    """Set our provider if there is none."""
    if trace._TRACER_PROVIDER is not None:
        yield
        return
    guard = trace._TRACER_PROVIDER_SET_ONCE
    patched.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", _GivesWay())
    trace._TRACER_PROVIDER = _own_provider()
    try:
        yield
    finally:
        if trace._TRACER_PROVIDER is _own_provider():
            trace._TRACER_PROVIDER = None
        else:
            guard.do_once(lambda: None)  # the program has set its own, for ever


class _GivesWay:
    """In place of the guard that lets a provider be set once: as long as ours is in force, one may be set."""

    def do_once(self, set_it: Callable[[], None]) -> bool:
        if trace._TRACER_PROVIDER is not _own_provider():
            return False
        set_it()
        join(trace._TRACER_PROVIDER)
        return True


class _OwnProvider(TracerProvider):
    """A provider whose tracers follow the one in force: programs keep tracers for longer than a test."""

    def get_tracer(self, *arguments: Any, **named: Any) -> trace.Tracer:
        return _Follower(lambda provider: provider.get_tracer(*arguments, **named))

    def own_tracer(self, make: Callable[[Any], trace.Tracer]) -> trace.Tracer:
        """What `make` asks for, of the SDK."""
        return make(super())


class _Follower(trace.Tracer):
    def __init__(self, make: Callable[[Any], trace.Tracer]) -> None:
        self._make = make

    def _now(self) -> trace.Tracer:
        provider = trace.get_tracer_provider()
        if isinstance(provider, _OwnProvider):
            return provider.own_tracer(self._make)
        return trace.NoOpTracer() if isinstance(provider, trace.ProxyTracerProvider) else self._make(provider)

    def start_span(self, *arguments: Any, **named: Any) -> trace.Span:
        return self._now().start_span(*arguments, **named)

    def start_as_current_span(self, *arguments: Any, **named: Any) -> Any:
        return self._now().start_as_current_span(*arguments, **named)


_own: _OwnProvider | None = None


def _own_provider() -> _OwnProvider:
    global _own
    if _own is None:
        _own = _OwnProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
        join(_own)
    return _own


def _collect(collected: Collected, span: ReadableSpan) -> None:
    context = span.context
    if context is None or collected.open_name(own_id := _span_id(context)) is None:
        return  # it began before the test
    if context.trace_flags.sampled:
        parent = span.parent
        parent_id = b"" if parent is None else _span_id(parent)
        is_root = parent is None or parent.is_remote or not collected.knows(parent_id)
        arrived = Arrived(context.trace_id.to_bytes(16), own_id, parent_id, is_root)
        collected.add(lambda: (Signal.TRACES, _encoded(span, is_root=is_root)), [arrived])
    collected.end(own_id)


def _encoded(span: ReadableSpan, *, is_root: bool) -> bytes:
    """The request that an exporter would send; a parent from before the test counts as one of another process."""
    request = encode_spans([span])
    if is_root and span.parent is not None:
        request.resource_spans[0].scope_spans[0].spans[0].flags |= PARENT_IS_REMOTE
    return request.SerializeToString()


def _span_id(context: Any) -> bytes:
    found: bytes = context.span_id.to_bytes(8)
    return found
