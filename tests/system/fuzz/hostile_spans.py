"""Spans out of bytes: the keys that dialects read, with values that go wrong. For the fuzzer and for hypothesis."""

import json

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tracegrade.extract.registry import OURS

TRACE_ID = bytes(15) + b"\x01"
MAX_SPANS = 8

# What dialects tell spans by.
KINDS = (
    *("execute_tool", "chat", "invoke_agent", "TOOL", "LLM", "AGENT", "CHAIN", "tool", "llm", "agent", "tools/call"),
    *(
        "tool_call",
        "generation",
        "workflow",
        "task",
        "ai.toolCall",
        "ai.generateText",
        "CHAT_MODEL",
        "model_generation",
    ),
    *("ai.streamText.doStream", "claude_code.tool", "create_agent", "embeddings", "true", "retriever"),
)
TAILS = (
    *("0.message.role", "0.message.content", "0.message.tool_calls.0.tool_call.function.name", "0.name"),
    *("0.message.tool_calls.0.tool_call.function.arguments", "0.message.tool_calls.0.tool_call.id", "0.role"),
    *("1.message.role", "1.message.tool_call_id", "1.message.content", "0.content", "0.tool_calls.0.name"),
    *(
        "0.tool_calls.0.arguments",
        "0.tool_calls.0.id",
        "7.message.contents.3.message_content.text",
        "0.tool.json_schema",
    ),
    *(
        "999999999.message.content",
        f"{'9' * 5000}.message.content",
        "-1.message.content",
        "\u0663.message.content",
        "..",
        "",
    ),
    *(
        f"0.message.tool_calls.{'9' * 5000}.tool_call.function.name",
        "0.message.tool_calls.x.tool_call.id",
        "0.message.",
    ),
)
KEYS = (
    *sorted(OURS.marks),
    *sorted(OURS.attributes - OURS.marks),
    *(prefix + tail for prefix in OURS.prefixes for tail in TAILS),
)
NAMES = (
    "execute_tool search",
    "chat gpt",
    "invoke_agent support",
    "tools/call search",
    "handoff to b",
    "search",
    "",
    "\x00",
)
EVENTS = (*sorted(OURS.events), "other")
ROLES = ("assistant", "tool", "user", "model", "")

_CALL = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": 1}}
_MESSAGES = [
    [{"role": "assistant", "parts": [_CALL, _CALL]}],
    [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "{'a': 1}"}]}],
    [{"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "search", "arguments": '{"q": '}}]}],
    [{"role": "user", "content": [{"type": "text", "text": "hello"}]}, {"role": 1, "parts": {}, "content": [[]]}],
    [{"role": "assistant", "content": [{"toolUse": {"name": "search", "toolUseId": [], "input": None}}]}],
    {"messages": [{"type": "constructor", "kwargs": {"content": "x", "tool_calls": [{"name": "search", "args": []}]}}]},
    {"kwargs": {"q": 1}, "args": [1]},
    {"content": {"content": {"content": {"content": {"content": {"content": 1}}}}}, "tool_call_id": []},
    {"type": "object", "properties": {"q": {"type": "string", "description": ""}}},
    {"type": "function", "function": {"name": "search", "parameters": {"properties": {"q": []}}}},
]
TEXTS = (
    *(
        "",
        " ",
        "{",
        "[",
        '"',
        "{}",
        "[]",
        '{"q": 1}',
        '{"q": "x',
        "{'q': (1, None)}",
        "{'q': 'x",
        "None",
        "null",
        "NaN",
    ),
    *(
        '{"q": NaN, "q": -Infinity}',
        '{"n": 123456789012345678901234567890}',
        "9" * 5000,
        f'{{"n": {"9" * 5000}}}',
        "1e999",
    ),
    *(
        '{"a": "\\ud800"}',
        '"\\ud800"',
        '\ufeff{"q": 1}',
        '{"a": "\x00\x1f"}',
        "\x00",
        "[" * 120 + "]" * 120,
        "[" * 2000,
    ),
    *("content='x' tool_call_id='c1' status='error'", "<not specified>", "__REDACTED__", "x" * 4096, "c1", "search"),
    *('"{\\"q\\": \\"{\\\\\\"r\\\\\\": 1}\\"}"', json.dumps(json.dumps(json.dumps(json.dumps({"q": 1})))), "b'\\xff'"),
    *("{1: {2, 3}, (4,): b'x'}", "{'a': -True, 'b': 1j, 'c': 1e999}", '{"q": 1} and more', "\ud7ff\U0010ffff"),
    *(json.dumps(messages) for messages in _MESSAGES),
    *(repr(messages) for messages in _MESSAGES),
)
TIMES = (0, 1, 5, 10, 2**63 - 1, 2**63, 2**64 - 1)


class Choices:
    """Numbers out of bytes; all zero behind their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def number(self, below: int) -> int:
        """A number from 0 up to but not `below`."""
        size = 1 if below <= 256 else 2
        taken = self.bytes(size)
        return int.from_bytes(taken, "big") % below

    def bytes(self, count: int) -> bytes:
        """The next bytes, fewer at the end."""
        taken = self._data[self._place : self._place + count]
        self._place += count
        return taken

    def one_of(self, items: tuple) -> object:
        """One of `items`."""
        return items[self.number(len(items))]


def request(data: bytes) -> ExportTraceServiceRequest:
    """A request of one trace: what the bytes choose."""
    choices = Choices(data)
    made = ExportTraceServiceRequest()
    count = 1 + choices.number(MAX_SPANS)
    for number in range(1, count + 1):
        resource_spans = made.resource_spans.add()
        _set(resource_spans.resource.attributes.add(), "service.name", AnyValue(string_value="shop"))
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = choices.one_of(("", "gcp.vertex.agent", "strands.telemetry.tracer", "other"))
        scope_spans.spans.append(_span(number, count, choices))
    return made


def _span(number: int, count: int, choices: Choices) -> Span:
    parent = choices.number(count + 2)  # itself, a later one, one that is not there
    start = choices.one_of(TIMES)
    span = Span(
        trace_id=TRACE_ID,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=parent.to_bytes(8, "big") if parent else b"",
        name=choices.one_of(NAMES),
        kind=choices.number(6),
        start_time_unix_nano=start,
        end_time_unix_nano=choices.one_of(TIMES),
        status=Status(code=choices.number(3), message=choices.one_of(("", "boom"))),
        dropped_attributes_count=choices.one_of((0, 0, 0, 128, 2**32 - 1)),
    )
    for key in {choices.one_of(KEYS) for _ in range(choices.number(12))} | {choices.one_of(tuple(sorted(OURS.marks)))}:
        _set(span.attributes.add(), key, _value(choices, 0))
    for _ in range(choices.number(4)):
        event = span.events.add(name=choices.one_of(EVENTS))
        for key in ("content", "message", "role", "id", "exception.type", "exception.message", "gen_ai.input.messages"):
            if choices.number(2):
                _set(event.attributes.add(), key, _value(choices, 0))
    return span


def _set(pair: KeyValue, key: str, value: AnyValue) -> None:
    pair.key = key
    pair.value.CopyFrom(value)


def _value(choices: Choices, depth: int) -> AnyValue:
    kind = choices.number(16)
    if kind < 4:
        return AnyValue(string_value=choices.one_of(KINDS))
    if kind < 9:
        return AnyValue(string_value=choices.one_of(TEXTS))
    if kind == 9:
        text = choices.bytes(choices.number(64)).decode("utf-8", "replace")
        return AnyValue(string_value=choices.one_of(("", "{", "[", "'")) + text)
    if kind == 10:
        return AnyValue(int_value=choices.one_of((0, 1, -1, 2**63 - 1, -(2**63))))
    if kind == 11:
        return AnyValue(double_value=choices.one_of((0.0, -0.0, 1.5, float("nan"), float("inf"), 1e308)))
    if kind == 12:
        return AnyValue(bool_value=bool(choices.number(2)))
    if kind == 13:
        return AnyValue(bytes_value=choices.bytes(choices.number(16)))
    if kind == 14 or depth > 3:
        return AnyValue()
    inner = [_value(choices, depth + 1) for _ in range(choices.number(4))]
    if choices.number(2):
        return AnyValue(array_value=ArrayValue(values=inner))
    names = ("role", "content", "name", "arguments", "messages", "q")
    return AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key=choices.one_of(names), value=v) for v in inner]))
