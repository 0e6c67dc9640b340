"""Generated agent traces: 19 spans of about 1 KB, 6 tool calls, as the GenAI conventions write them.

A request is made once and then stamped with fresh ids for every use, in place, so that a load generator costs little.
"""

import json
import random
import re
import string
from collections.abc import Iterable, Iterator, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SPANS_PER_TRACE = 19
TOOLS = ("validate_user", "check_inventory", "check_inventory", "reserve_stock", "charge_card", "create_order")
START_NS = 1_795_000_000_000_000_000
MS = 1_000_000

# Trace ids that are replaced by fresh ones: bytes that occur nowhere else in a request.
_TRACE_MARK = b"\xf5TRACEGRADE-%04d"
_ID_BYTES = 16
# Words of sentences, as between others: no keys, and nothing that a framework is known by.
_WORD = re.compile(rb'(?<=[ "\n])[a-z]{4,12}(?=[ ,.])')
_LETTERS = string.ascii_lowercase.encode()


def template(traces: int) -> bytes:
    """One serialised request of `traces` whole traces, with marks where the trace ids go."""
    return _request(span for number in range(traces) for span in _trace(_TRACE_MARK % number))


def templates(spans: int) -> list[bytes]:
    """Requests of about so many spans: one of whole traces, or several that make one trace together, its root last."""
    if spans >= SPANS_PER_TRACE:
        return [template(round(spans / SPANS_PER_TRACE))]
    trace = list(_trace(_TRACE_MARK % 0))[::-1]
    return [_request(trace[place : place + spans]) for place in range(0, len(trace), spans)]


def marks(traces: int) -> list[bytes]:
    """The ids that stand for those of so many traces."""
    return [_TRACE_MARK % number for number in range(traces)]


class Stamper:
    """Gives templates fresh trace ids: each call is another request, never seen before."""

    def __init__(
        self, templates: Sequence[bytes], trace_ids: Sequence[bytes], salt: int, *, varies_words: bool = False
    ) -> None:
        """Look for the places.

        Args:
            templates: requests, sent one after the other and again from the first; each time round they are other
                traces.
            trace_ids: those that are replaced in them, 16 bytes each.
            salt: of this sender: others with another one send other traces.
            varies_words: whether words of sentences are other ones each time, so that no text comes twice.
        """
        self._trace_ids = trace_ids
        self._salt = salt.to_bytes(4, "big")
        self._count = 0  # of the traces so far
        self._next = 0
        self._requests = [
            (bytearray(request), [list(_occurrences(request, trace_id)) for trace_id in trace_ids])
            for request in templates
        ]
        assert any(places for _, traces in self._requests for places in traces)
        self._chance = random.Random(salt)
        self._words = [[word.span() for word in _WORD.finditer(one)] if varies_words else [] for one in templates]

    def next(self) -> bytes:
        """The next request; ``first_trace`` is then its round's first trace's id in hex, whose successors follow it."""
        buffer, traces = self._requests[self._next]
        for number, places in enumerate(traces):
            trace_id = self._trace_id(number)
            for place in places:
                buffer[place : place + _ID_BYTES] = trace_id
        for start, end in self._words[self._next]:
            buffer[start:end] = self._chance.choices(_LETTERS, k=end - start)
        self.first_trace = self._trace_id(0).hex()
        self._next += 1
        if self._next == len(self._requests):
            self._next = 0
            self._count += len(self._trace_ids)
        return bytes(buffer)

    def _trace_id(self, number: int) -> bytes:
        return b"\x01" + self._salt + (self._count + number + 1).to_bytes(11, "big")


def _occurrences(data: bytes, mark: bytes) -> Iterator[int]:
    place = data.find(mark)
    while place >= 0:
        yield place
        place = data.find(mark, place + 1)


def _request(spans: Iterable[Span]) -> bytes:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    for key, value in {
        "service.name": "bench-shop",
        "service.version": "1.2.3",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "service.instance.id": "5a3f1c9e-7a55-4a0e-9d4e-bench",
    }.items():
        resource_spans.resource.attributes.append(_attribute(key, value))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = "bench-agent"
    scope_spans.spans.extend(spans)
    return request.SerializeToString()


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
