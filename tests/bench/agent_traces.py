"""Generated agent traces: 19 spans of about 1 KB, 6 tool calls, as the GenAI conventions write them.

A request is made once and then stamped with fresh ids for every use, in place, so that a load generator costs little.
"""

import json
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SPANS_PER_TRACE = 19
TOOLS = ("validate_user", "check_inventory", "check_inventory", "reserve_stock", "charge_card", "create_order")
START_NS = 1_795_000_000_000_000_000
MS = 1_000_000

# Marks that are replaced by fresh ids: bytes that occur nowhere else in a request.
_TRACE_MARK = b"\xf5TRACEGRADE-%04d"
_ID_BYTES = 16


def template(traces: int, service: str = "bench-shop") -> bytes:
    """One serialised request of `traces` whole traces, with marks where the trace ids go."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    for key, value in {
        "service.name": service,
        "service.version": "1.2.3",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "service.instance.id": "5a3f1c9e-7a55-4a0e-9d4e-bench",
    }.items():
        resource_spans.resource.attributes.append(_attribute(key, value))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "bench-agent"
    for number in range(traces):
        scope_spans.spans.extend(_trace(_TRACE_MARK % number))
    return request.SerializeToString()


class Stamper:
    """Gives a template fresh trace ids: each call is another request, never seen before."""

    def __init__(self, template: bytes, traces: int, salt: int) -> None:
        self._buffer = bytearray(template)
        self._salt = salt.to_bytes(4, "big")
        self._count = 0
        self._places = [list(_occurrences(template, _TRACE_MARK % number)) for number in range(traces)]
        assert all(len(places) == SPANS_PER_TRACE for places in self._places)

    def next(self) -> bytes:
        """The next request; ``first_trace`` is then its first trace's id in hex."""
        buffer = self._buffer
        self.first_trace = (b"\x01" + self._salt + (self._count + 1).to_bytes(11, "big")).hex()
        for places in self._places:
            self._count += 1
            trace_id = b"\x01" + self._salt + self._count.to_bytes(11, "big")
            for place in places:
                buffer[place : place + _ID_BYTES] = trace_id
        return bytes(buffer)


def _occurrences(data: bytes, mark: bytes) -> Iterator[int]:
    place = data.find(mark)
    while place >= 0:
        yield place
        place = data.find(mark, place + 1)


def _trace(trace_id: bytes) -> Iterator[Span]:
    assert len(trace_id) == _ID_BYTES
    clock = _Clock()
    root = _span(trace_id, 1, b"", "invoke_agent order-agent", clock, 0)
    root.end_time_unix_nano = START_NS + 100 * MS
    _set(root, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "order-agent"} | _CONTEXT)
    _set(root, {"gen_ai.input.messages": _text("user", _PROMPT), "gen_ai.output.messages": _text("assistant", _ANSWER)})
    yield root
    number = 2
    for index, tool in enumerate((*TOOLS, None)):
        chat = _span(trace_id, number, root.span_id, "chat gpt-4o-mini", clock, 5)
        _set(chat, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini"} | _CONTEXT)
        _set(chat, {"gen_ai.usage.input_tokens": 40 + index, "gen_ai.usage.output_tokens": 12})
        said = _text("assistant", _ANSWER) if tool is None else _asks(tool, index)
        _set(chat, {"gen_ai.input.messages": _text("user", _PROMPT), "gen_ai.output.messages": said})
        yield chat
        number += 1
        if tool is not None:
            call = _span(trace_id, number, root.span_id, f"execute_tool {tool}", clock, 3)
            _set(call, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool} | _CONTEXT)
            _set(call, {"gen_ai.tool.call.id": f"call_{index}", "gen_ai.tool.type": "function"})
            _set(call, {"gen_ai.tool.call.arguments": _arguments(tool, index), "gen_ai.tool.call.result": RESULT})
            yield call
            number += 1
    while number <= SPANS_PER_TRACE:
        http = _span(trace_id, number, root.span_id, "POST /v1/orders", clock, 2)
        _set(http, {"http.request.method": "POST", "url.full": "https://shop.example/v1/orders"} | _CONTEXT)
        _set(http, {"http.response.status_code": 200, "user_agent.original": "bench/1.0" + "x" * 400})
        yield http
        number += 1


_PROMPT = "Please order 2 of A-1 for user 123, and see whether B-7 is in stock too. " * 3
_ANSWER = "Order ORD-1001 was created for user 123: 2 x A-1, total 99.99 EUR. " * 3
_CONTEXT: dict[str, object] = {
    "gen_ai.provider.name": "openai",
    "gen_ai.conversation.id": "conversation-42",
    "server.address": "api.openai.com",
    "server.port": 443,
    "thread.name": "MainThread",
    "code.function.name": "agent.loop.step",
}
RESULT = json.dumps({"status": "ok", "order_id": "ORD-1001", "items": [{"sku": "A-1", "qty": 2, "note": "n" * 300}]})


def _arguments(tool: str, index: int) -> str:
    return json.dumps({"user_id": 123, "sku": "A-1", "qty": 2, "step": index, "comment": f"{tool} " + "c" * 200})


def _text(role: str, content: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


def _asks(tool: str, index: int) -> str:
    part = {"type": "tool_call", "id": f"call_{index}", "name": tool, "arguments": json.loads(_arguments(tool, index))}
    return json.dumps([{"role": "assistant", "parts": [part], "finish_reason": "tool_calls"}])


class _Clock:
    """One thing after the other, as an agent's loop goes."""

    def __init__(self) -> None:
        self.now_ns = START_NS


def _span(trace_id: bytes, number: int, parent: bytes, name: str, clock: _Clock, took_ms: int) -> Span:
    start_ns = clock.now_ns
    clock.now_ns += took_ms * MS
    return Span(
        trace_id=trace_id,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=parent,
        name=name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + took_ms * MS,
        flags=0x101,
    )


def _set(span: Span, attributes: dict[str, object]) -> None:
    span.attributes.extend(_attribute(key, value) for key, value in attributes.items())


def _attribute(key: str, value: object) -> KeyValue:
    return KeyValue(
        key=key, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=str(value))
    )
