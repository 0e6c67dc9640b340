"""What OpenTelemetry's own Python exporters, unmodified, make of our answers."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression as HttpCompression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from build import each
from tracegrade.journal.errors import JournalRefused
from tracegrade.model.signal import Signal

Serve = Callable[..., Any]


def span_exporter(served: Any, transport: str, **more: Any) -> Any:
    if transport == "grpc":
        return GrpcSpanExporter(endpoint=served.grpc_address, insecure=True, **more)
    return HttpSpanExporter(endpoint=f"http://127.0.0.1:{served.http_port}/v1/traces", **more)


@pytest.fixture
def spans() -> tuple[ReadableSpan, ...]:
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with provider.get_tracer("agent").start_as_current_span("invoke_agent support") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
    return memory.get_finished_spans()


@pytest.mark.parametrize(
    ("transport", "compression"),
    [
        ("grpc", grpc.Compression.NoCompression),
        ("grpc", grpc.Compression.Gzip),
        ("http", HttpCompression.NoCompression),
        ("http", HttpCompression.Gzip),
    ],
)
def test_spans_arrive_whole(serve: Serve, spans: Any, transport: str, compression: Any) -> None:
    served = serve()
    exporter = span_exporter(served, transport, headers={"x-team": "a"}, compression=compression)
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    exporter.shutdown()
    [entry] = served.journal.entries
    request = ExportTraceServiceRequest.FromString(entry.payload)
    [span] = request.resource_spans[0].scope_spans[0].spans
    assert span.name == "invoke_agent support"
    assert span.trace_id == spans[0].context.trace_id.to_bytes(16, "big")
    assert span.attributes[0].value.string_value == "invoke_agent"


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_an_exporter_told_to_come_back_does_and_loses_nothing(serve: Serve, spans: Any, transport: str) -> None:
    served = serve()
    served.journal.refuse_first = [JournalRefused("journal_full", "full")]
    exporter = span_exporter(served, transport, timeout=10)
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert len(served.journal.entries) == 1
    assert served.requests(outcome="refused", reason="journal_full") == 1


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_an_exporter_with_a_token_is_let_in_and_one_without_gives_up_at_once(
    serve: Serve, spans: Any, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(**{transport: {"auth": {"tokens": ["secret-1-of-a-sender"]}}})
    exporter = span_exporter(served, transport, timeout=10)
    assert exporter.export(spans) is SpanExportResult.FAILURE
    exporter.shutdown()
    assert served.requests() == served.requests(outcome="refused", reason="unauthenticated") == 1
    # As the refusal says.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret-1-of-a-sender")
    exporter = span_exporter(served, transport, timeout=10)
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert len(served.journal.entries) == 1


def test_an_exporter_whose_request_is_too_large_gives_up_at_once(serve: Serve) -> None:
    served = serve(http={"max_request_body_size_mib": 1})
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with provider.get_tracer("agent").start_as_current_span("large") as span:
        span.set_attribute("input.value", "x" * 2 * 1024 * 1024)
    exporter = span_exporter(served, "http", timeout=10)
    assert exporter.export(memory.get_finished_spans()) is SpanExportResult.FAILURE
    exporter.shutdown()
    assert served.requests() == served.requests(outcome="refused", reason="too_large") == 1


@each("transport", ["grpc", "http"])
def test_metrics_arrive(serve: Serve, transport: str) -> None:
    served = serve()
    exporter: Any = (
        GrpcMetricExporter(endpoint=served.grpc_address, insecure=True)
        if transport == "grpc"
        else HttpMetricExporter(endpoint=f"http://127.0.0.1:{served.http_port}/v1/metrics")
    )
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)])
    provider.get_meter("agent").create_counter("tokens").add(7)
    provider.shutdown()
    [entry] = served.journal.entries
    assert (entry.signal, entry.items) == (Signal.METRICS, 1)


@each("transport", ["grpc", "http"])
def test_log_records_arrive(serve: Serve, transport: str) -> None:
    served = serve()
    exporter: Any = (
        GrpcLogExporter(endpoint=served.grpc_address, insecure=True)
        if transport == "grpc"
        else HttpLogExporter(endpoint=f"http://127.0.0.1:{served.http_port}/v1/logs")
    )
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    provider.get_logger("agent").emit(LogRecord(body="said", event_name="gen_ai.choice"))
    provider.shutdown()
    [entry] = served.journal.entries
    assert (entry.signal, entry.items) == (Signal.LOGS, 1)
