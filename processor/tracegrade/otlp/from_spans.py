"""Kept spans and log records as OTLP again, to show them, to move them or to test rules with them.

Attributes that nothing reads were never kept, and our own notes are left out. Read again, the spans are equal.
"""

from collections.abc import Sequence

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as OtlpLogRecord
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from tracegrade.model.json_value import JsonValue
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span
from tracegrade.model.trace import Trace
from tracegrade.otlp.encode import any_value


def requests_of(trace: Trace) -> list[Message]:
    """Stored spans of a trace, and its log records if it has any, as export requests."""
    return [trace_request(trace.spans), *([logs_request(trace.log_records)] if trace.log_records else [])]


def trace_request(spans: Sequence[Span]) -> ExportTraceServiceRequest:
    """A request of `spans`, in their order within each resource and scope."""
    found: list[ResourceSpans] = []
    resources: dict[int, ResourceSpans] = {}
    scopes: dict[tuple[int, str], ScopeSpans] = {}
    for span in spans:
        key = id(span.resource)
        if key not in resources:
            resources[key] = ResourceSpans()
            resources[key].resource.attributes.extend(_attributes(span.resource.attributes))
            found.append(resources[key])
        if (key, span.scope) not in scopes:
            scopes[key, span.scope] = resources[key].scope_spans.add(scope=InstrumentationScope(name=span.scope))
        scopes[key, span.scope].spans.append(_span(span))
    return ExportTraceServiceRequest(resource_spans=found)


def _span(span: Span) -> OtlpSpan:
    return OtlpSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        kind=span.kind,  # type: ignore[arg-type]  # an enum's number, as it came
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        flags=span.flags,
        attributes=_attributes(span.attributes),
        dropped_attributes_count=span.dropped_attributes_count,
        events=[
            OtlpSpan.Event(name=event.name, time_unix_nano=event.time_ns, attributes=_attributes(event.attributes))
            for event in span.events
        ],
        status=Status(code=span.status_code, message=span.status_message),  # type: ignore[arg-type]
    )


def logs_request(records: Sequence[LogRecord]) -> ExportLogsServiceRequest:
    """A request of `records`; their content is in their bodies, wherever it was before."""
    return ExportLogsServiceRequest(
        resource_logs=[
            ResourceLogs(
                scope_logs=[
                    ScopeLogs(scope=InstrumentationScope(name=record.scope), log_records=[_log_record(record)])
                    for record in records
                ]
            )
        ]
    )


def _log_record(record: LogRecord) -> OtlpLogRecord:
    return OtlpLogRecord(
        trace_id=record.trace_id,
        span_id=record.span_id,
        event_name=record.event.name,
        time_unix_nano=record.event.time_ns,
        body=any_value(record.event.attributes),
    )


def _attributes(attributes: dict[str, JsonValue]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]
