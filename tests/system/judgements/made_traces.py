"""Runs of a small booking service, drawn by number: the requests that an agent would send, complete or not.

What one may look like: several model turns, calls made together or one after the other, equal clocks, calls that failed
and were tried again, sub-agents, handoffs, work that cannot be read, content that was switched off, cut off or redacted
before it came, spans that arrive late, traces that share a session.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from build.redaction import KEY, request_redactor
from tracegrade.model.signal import Signal

IDS = ("A-1", "A-2", "B-7")
AMOUNTS = (5, 20, 120)
RECEIVERS = ("ann@shop.test", "bob@shop.test")
AGENTS = ("support", "billing")
PROMPTS = ("Pay 20 to ann@shop.test for A-1.", "Cancel B-7, please.", "What about A-2?")
TOOLS: dict[str, Callable[[Random], dict[str, Any]]] = {
    "find": lambda draw: {"id": draw.choice(IDS)},
    "hold": lambda draw: {"id": draw.choice(IDS), "seats": draw.choice([1, 2, 2.0])},
    "pay": lambda draw: {"id": draw.choice(IDS), "amount": draw.choice(AMOUNTS), "to": draw.choice(RECEIVERS)},
    "send": lambda draw: {"to": draw.choice(RECEIVERS), "text": f"{draw.choice(IDS)} is paid"},
    "cancel": lambda draw: {"id": draw.choice(IDS), "reason": draw.choice(["", None, "too late"])},
}
OUTPUTS: dict[str, Callable[[Random], Any]] = {
    "find": lambda draw: {"id": draw.choice(IDS), "total": draw.choice(AMOUNTS), "to": draw.choice(RECEIVERS)},
    "hold": lambda draw: draw.choice([{"held": True}, {"held": False}, []]),
    "pay": lambda draw: draw.choice([{"status": "paid", "amount": draw.choice(AMOUNTS)}, "paid", 0]),
    "send": lambda draw: draw.choice(["sent", "", None]),
    "cancel": lambda draw: {"status": draw.choice(["cancelled", "late"])},
}
TRACES_A_GROUP = 50
"""Traces that are judged by one set of rules, and make many of the same calls."""
_COMMON_CALLS = 5
_COMMON = 0.7
Call = tuple[str, dict[str, Any]]
_MS = 1_000_000
_BEGIN_MS = 1_790_000_000_000
_EVERYTHING = [{"arguments": "*"}, {"outputs": "*"}, {"messages": "content"}, {"messages": "text"}]
REDACTIONS: tuple[dict[str, Any], ...] = (
    *(
        {"detectors": [], "places": [{**place, "action": action} for place in places]}
        for places in ([{"arguments": "*"}], [{"arguments": "id"}], [{"outputs": "*"}], _EVERYTHING)
        for action in ("mask", "hash", "drop")
    ),
    {"action": "hash"},
    {"detectors": [], "action": "mask", "patterns": {"number": "[0-9]+"}},
    {"detectors": [], "action": "hash", "patterns": {"number": "[0-9]+"}},
)


@dataclass(slots=True)
class MadeTrace:
    """The requests of one trace, in the order and at the times (ns) at which they come."""

    requests: list[tuple[int, bytes]] = field(default_factory=list)


def made_trace(number: int) -> MadeTrace:
    """The trace with this number: always the same."""
    return _Run(Random(f"trace {number}"), number).made()


def drawn_call(draw: Random, group: int) -> Call:
    """A call: most often one of those that are common in a group, so that what rules expect is often made."""
    if draw.random() < _COMMON:
        draw = Random(f"call {group} {draw.randrange(_COMMON_CALLS)}")
    name = draw.choice([*TOOLS, *TOOLS, "transfer_to_billing"])
    return name, TOOLS[name](draw) if name in TOOLS else {}


class _Run:
    def __init__(self, draw: Random, number: int) -> None:
        self._draw = draw
        self._number = number
        self._spans: list[Span] = []
        self._late: list[Span] = []
        self._now = 0
        self._grid = draw.choice([1, 1, 10, 50])  # a coarse clock gives equal times
        self._content = draw.choices(["on", "off", "some", "cut"], [60, 10, 20, 10])[0]
        self._recorded = draw.choices(["spans", "messages", "both"], [4, 2, 4])[0]
        self._history: list[dict[str, Any]] = []

    def made(self) -> MadeTrace:
        draw = self._draw
        root = self._agent(None, draw.choice(AGENTS), depth=0)
        if draw.random() < 0.05:  # the root never comes
            self._spans.remove(root)
        if draw.random() < 0.12 and len(self._spans) > 3:
            self._late = [self._spans.pop(draw.randrange(1, len(self._spans)))]
        service = draw.choice(["shop", "shop", "desk"])
        start_ns = (_BEGIN_MS + self._number * 2_000) * _MS
        payloads = [self._request(self._spans, service)]
        payloads += [self._request(self._late, service)] if self._late else []
        if draw.random() < 0.2:
            redactor = request_redactor(key=KEY, **draw.choice(REDACTIONS))
            payloads = [redactor.redacted(Signal.TRACES, payload, "default").payload for payload in payloads]
        return MadeTrace([(start_ns + place * 60_000 * _MS, payload) for place, payload in enumerate(payloads)])

    def _request(self, spans: list[Span], service: str) -> bytes:
        request = ExportTraceServiceRequest()
        sent = request.resource_spans.add()
        sent.resource.attributes.extend(
            _attributes({"service.name": service, "service.version": self._draw.choice(["1.0", "1.1"])})
        )
        sent.scope_spans.add().spans.extend(spans)
        return request.SerializeToString()

    def _span(self, parent: Span | None, name: str, attributes: dict[str, Any], ms: int, error: str = "") -> Span:
        start = _BEGIN_MS + self._number * 2_000 + self._now // self._grid * self._grid
        made = Span(
            trace_id=(self._number + 1).to_bytes(16, "big"),
            span_id=(self._number * 1_000 + len(self._spans) + 1).to_bytes(8, "big"),
            parent_span_id=parent.span_id if parent is not None else b"",
            name=name,
            start_time_unix_nano=start * _MS,
            end_time_unix_nano=(start + max(0, ms) // self._grid * self._grid) * _MS,
            flags=0x101,
            status=Status(code=Status.STATUS_CODE_ERROR, message=error) if error else Status(),
        )
        made.attributes.extend(_attributes(attributes))
        self._spans.append(made)
        return made

    def _agent(self, parent: Span | None, name: str, depth: int) -> Span:
        draw = self._draw
        prompt, answer = draw.choice(PROMPTS), f"{draw.choice(IDS)} is paid: {draw.choice(AMOUNTS)} EUR."
        known: dict[str, Any] = {"gen_ai.operation.name": "invoke_agent"}
        if draw.random() < 0.9:
            known["gen_ai.agent.name"] = name
        if self._number % 3 == 0:
            known["gen_ai.conversation.id"] = f"talk-{self._number // 9}"
        if draw.random() < 0.3:
            known["tier"] = draw.choice(["gold", "free"])
        span = self._span(parent, f"invoke_agent {name}", known, 5_000)
        self._say(span, "gen_ai.input.messages", [_text("user", prompt)])
        self._history = [_text("user", prompt)]
        for _ in range(draw.choice([0, 1, 1, 2, 2, 3])):
            self._turn(span, depth)
        self._say(span, "gen_ai.output.messages", [_text("assistant", answer)])
        if draw.random() < 0.08:
            self._unread(span)
        return span

    def _turn(self, agent: Span, depth: int) -> None:
        draw = self._draw
        wanted = [drawn_call(draw, self._number // TRACES_A_GROUP) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
        if draw.random() < 0.15:
            wanted.append(draw.choice(wanted))  # the same once more
        model = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "small-1",
            "gen_ai.usage.input_tokens": draw.choice([10, 200]),
            "gen_ai.usage.output_tokens": draw.choice([5, 50]),
        }
        chat = self._span(agent, "chat small-1", model, 20)
        ids = [f"c{len(self._spans)}-{place}" for place in range(len(wanted))]
        asked = [
            {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
            for id, (name, arguments) in zip(ids, wanted, strict=True)
        ]
        if self._recorded != "spans":
            self._say(chat, "gen_ai.input.messages", self._history)
            self._say(chat, "gen_ai.output.messages", [{"role": "assistant", "parts": asked}])
            self._history = [*self._history, {"role": "assistant", "parts": asked}]
        self._now += 30
        together = draw.random() < 0.5
        for id, (name, arguments) in zip(ids, wanted, strict=True):
            self._call(agent, id, name, arguments, depth)
            self._now += 0 if together else draw.choice([0, 20, 40])
        self._now += 40

    def _call(self, agent: Span, id: str, name: str, arguments: dict[str, Any], depth: int) -> None:
        draw = self._draw
        output = OUTPUTS[name](draw) if name in OUTPUTS else "ok"
        error = "timed out" if draw.random() < 0.12 else ""
        if self._recorded != "messages":
            known = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": id}
            if error:
                known["error.type"] = "TimeoutError"
            span = self._span(agent, f"execute_tool {name}", known, draw.choice([0, 10, 30]), error)
            self._say(span, "gen_ai.tool.call.arguments", arguments)
            if not error:
                self._say(span, "gen_ai.tool.call.result", output)
            if depth == 0 and draw.random() < 0.1:
                before = self._history
                self._agent(span, draw.choice(AGENTS), depth=1)
                self._history = before
        answer = {"type": "tool_call_response", "id": id, "response": error or output}
        self._history = [*self._history, {"role": "tool", "parts": [answer]}]

    def _unread(self, agent: Span) -> None:
        """Work of which nothing can be read: a tool without a name, or a model that stopped for tools nobody shows."""
        if self._draw.random() < 0.5:
            self._span(agent, "execute_tool", {"gen_ai.operation.name": "execute_tool"}, 5)
        else:
            finish = {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ["tool_calls"]}
            self._span(agent, "chat", finish, 5)

    def _say(self, span: Span, key: str, value: Any) -> None:
        """Set content on a span, as far as this trace's sender records it."""
        off = self._content == "off" or (self._content == "some" and self._draw.random() < 0.3)
        if off:
            return
        text = value if isinstance(value, str) else json.dumps(value)
        if self._content == "cut" and self._draw.random() < 0.4 and len(text) > 8:
            text = text[: self._draw.randrange(4, len(text))]
        span.attributes.extend(_attributes({key: text}))


def _text(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _attributes(values: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in values.items()]


def _value(value: Any) -> AnyValue:
    if isinstance(value, list):
        made = AnyValue()
        made.array_value.values.extend(map(_value, value))
        return made
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
