"""OTLP as agents send it: spans, log records, and the requests that carry them."""

import json
from collections.abc import Iterable, Sequence

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as OtlpLogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from tracegrade.model.json_value import JsonValue

Content = OtlpSpan | OtlpLogRecord


def otlp_span(
    trace: int, number: int, parent: int | None = None, *, start: int = 0, end: int = 0, **attributes: object
) -> OtlpSpan:
    """A span of trace `trace`; ``__`` in attribute names stands for a dot."""
    made = OtlpSpan(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"" if parent is None else parent.to_bytes(8, "big"),
        name=f"span {number}",
        start_time_unix_nano=start or number,
        end_time_unix_nano=end or 100 + number,
        flags=0x101,
    )
    for key, value in attributes.items():
        made.attributes.append(KeyValue(key=key.replace("__", "."), value=AnyValue(string_value=str(value))))
    return made


def tool_span(trace: int, number: int, parent: int, tool: str, arguments: str = "{}", **changes: int) -> OtlpSpan:
    """An ``execute_tool`` span."""
    return otlp_span(
        trace,
        number,
        parent,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name=tool,
        gen_ai__tool__call__arguments=arguments,
        gen_ai__tool__call__result='{"status": "ok"}',
        **changes,
    )


def agent_span(trace: int, number: int, parent: int | None = None) -> OtlpSpan:
    """An ``invoke_agent`` span."""
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Please order 2 of A-1 for user 123."}]}]
    return otlp_span(
        trace,
        number,
        parent,
        end=1000,
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name="order-agent",
        gen_ai__input__messages=json.dumps(asked),
    )


def chat_span(trace: int, number: int, parent: int) -> OtlpSpan:
    """A model call whose messages are elsewhere."""
    return otlp_span(trace, number, parent, gen_ai__operation__name="chat")


def otlp_log(trace: int, span: int, name: str, *, time: int = 0, **body: JsonValue) -> OtlpLogRecord:
    """A log event of span `span`; its body is a map."""
    return OtlpLogRecord(
        trace_id=trace.to_bytes(16, "big"),
        span_id=span.to_bytes(8, "big"),
        event_name=name,
        time_unix_nano=time or span,
        body=any_value(body),
    )


def choice_log(trace: int, span: int, call_id: str, tool: str, arguments: str) -> OtlpLogRecord:
    """The log event of a model that asks for a tool."""
    call: JsonValue = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
    return otlp_log(trace, span, "gen_ai.choice", message={"role": "assistant", "tool_calls": [call]})


def any_value(value: JsonValue) -> AnyValue:
    """`value` as OTLP has it; for texts, integers, lists and maps."""
    if isinstance(value, dict):
        pairs = [KeyValue(key=key, value=any_value(item)) for key, item in value.items()]
        return AnyValue(kvlist_value=KeyValueList(values=pairs))
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=map(any_value, value)))
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=str(value))


def payload(spans: Sequence[OtlpSpan], service: str = "demo-shop") -> bytes:
    """One export request."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value=service)))
    resource_spans.scope_spans.add().spans.extend(spans)
    return request.SerializeToString()


def log_payload(log_records: Sequence[OtlpLogRecord], scope: str = "agent-sdk") -> bytes:
    """One export request of log records."""
    request = ExportLogsServiceRequest()
    scope_logs = request.resource_logs.add().scope_logs.add()
    scope_logs.scope.name = scope
    scope_logs.log_records.extend(log_records)
    return request.SerializeToString()


def logged_trace(trace: int) -> list[Content]:
    """An agent run whose messages, and so its calls, are in log events; one of them names a span that never comes."""
    return [
        agent_span(trace, 1),
        chat_span(trace, 2, 1),
        choice_log(trace, 2, "c1", "validate_user", '{"user_id": 123}'),
        chat_span(trace, 3, 1),
        choice_log(trace, 3, "c2", "check_inventory", '{"sku": "A-1", "qty": 2}'),
        otlp_log(trace, 3, "gen_ai.tool.message", time=2, id="c1", content='{"status": "ok"}'),
        chat_span(trace, 4, 1),
        choice_log(trace, 4, "c3", "create_order", '{"user_id": 123, "sku": "A-1", "qty": 2}'),
        chat_span(trace, 5, 1),
        # Written at the same time: their order must not be that in which they came.
        otlp_log(trace, 5, "gen_ai.tool.message", id="c3", content='{"status": "ok", "order_id": "ORD-1"}'),
        otlp_log(trace, 5, "gen_ai.choice", message={"role": "assistant", "content": "Ordered."}),
        otlp_log(trace, 999, "gen_ai.user.message", content="never joined"),
    ]


def spans_of(contents: Iterable[Content]) -> list[OtlpSpan]:
    return [content for content in contents if isinstance(content, OtlpSpan)]


def log_records_of(contents: Iterable[Content]) -> list[OtlpLogRecord]:
    return [content for content in contents if isinstance(content, OtlpLogRecord)]
