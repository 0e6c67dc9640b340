"""The three export requests: their protobuf classes, and the items (spans, log records, metrics) inside them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.model.signal import Signal

REQUESTS: Mapping[Signal, type[Message]] = MappingProxyType(
    {
        Signal.TRACES: ExportTraceServiceRequest,
        Signal.LOGS: ExportLogsServiceRequest,
        Signal.METRICS: ExportMetricsServiceRequest,
    }
)

# The repeated fields that lead from a request to its items.
PATHS = {
    Signal.TRACES: ("resource_spans", "scope_spans", "spans"),
    Signal.LOGS: ("resource_logs", "scope_logs", "log_records"),
    Signal.METRICS: ("resource_metrics", "scope_metrics", "metrics"),
}

ITEM_NAMES = {Signal.TRACES: "span", Signal.LOGS: "log record", Signal.METRICS: "metric"}


def containers(signal: Signal, request: Message) -> Iterator[Any]:
    """The repeated field of items of every scope in `request`: lists of spans, log records or metrics."""
    resources, scopes, items = PATHS[signal]
    for resource in getattr(request, resources):
        for scope in getattr(resource, scopes):
            yield getattr(scope, items)
