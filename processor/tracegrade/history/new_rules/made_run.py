"""A made-up run as spans, as the GenAI conventions write it: an agent's span for each turn, and one for each call."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import KIND_INTERNAL, STATUS_UNSET, Resource, Span
from tracegrade.otlp.from_spans import trace_request
from tracegrade.otlp.json import to_json

# A call {tool, args, output}, {prompt: text}, {answer: text}, or {turn: number}, with which the next trace begins.
Step: TypeAlias = dict[str, Any]

_BEGIN_NS = 1_767_225_600_000_000_000  # 2026-01-01
_SECOND_NS = 1_000_000_000
_TURN_NS = 60 * _SECOND_NS
_PROMPT = "Please refund order ORD-7."
_ANSWER = "Done."
_ARGUMENTS = {"order_id": "ORD-7"}
_OUTPUT = {"order_id": "ORD-7", "status": "ok"}


def made_run(service: str, agent: str, steps: Sequence[Step]) -> dict[str, JsonValue]:
    """The run as one OTLP/JSON request; what a step does not say is filled in.

    Several turns are one conversation: a trace for each.
    """
    turns: list[list[Step]] = [[]]
    for step in steps:
        if "turn" in step:
            turns.append([])
        else:
            turns[-1].append(step)
    seed = json.dumps([service, agent, [*steps]])
    resource = Resource({"service.name": service})
    return to_json(
        trace_request(
            [
                span
                for number, turn in enumerate(turns)
                for span in _turn(seed, number, len(turns), agent, turn, resource)
            ]
        )
    )


def _turn(seed: str, number: int, turns: int, agent: str, steps: Sequence[Step], resource: Resource) -> list[Span]:
    said = {key: step[key] for step in steps for key in ("prompt", "answer") if key in step}
    calls = [step for step in steps if "tool" in step]
    root: dict[str, JsonValue] = {
        "gen_ai.operation.name": "invoke_agent",
        **({"gen_ai.agent.name": agent} if agent else {}),
        **({"gen_ai.conversation.id": f"conversation-{_digest(seed, 4).hex()}"} if turns > 1 else {}),
        "gen_ai.input.messages": _message("user", said.get("prompt", _PROMPT)),
        "gen_ai.output.messages": _message("assistant", said.get("answer", _ANSWER)),
    }
    trace_id = _digest(f"{seed}/{number}", 16)
    begin_ns = _BEGIN_NS + number * _TURN_NS
    end_ns = begin_ns + (2 * len(calls) + 1) * _SECOND_NS
    spans = [_span(trace_id, 1, f"invoke_agent {agent}".strip(), begin_ns, end_ns, root, resource)]
    for place, step in enumerate(calls):
        call: dict[str, JsonValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step["tool"],
            "gen_ai.tool.call.id": f"call_{place + 1}",
            "gen_ai.tool.call.arguments": json.dumps(step.get("args", _ARGUMENTS)),
            "gen_ai.tool.call.result": json.dumps(step.get("output", _OUTPUT)),
        }
        start_ns = begin_ns + (2 * place + 1) * _SECOND_NS
        name = f"execute_tool {step['tool']}"
        spans.append(_span(trace_id, place + 2, name, start_ns, start_ns + _SECOND_NS, call, resource))
    return spans


def _digest(text: str, size: int) -> bytes:
    return blake2b(text.encode(), digest_size=size).digest()


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _span(
    trace_id: bytes,
    number: int,
    name: str,
    start_ns: int,
    end_ns: int,
    attributes: dict[str, JsonValue],
    resource: Resource,
) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=trace_id[:7] + bytes([number]),
        parent_span_id=b"" if number == 1 else trace_id[:7] + b"\1",
        name=name,
        kind=KIND_INTERNAL,
        start_ns=start_ns,
        end_ns=end_ns,
        flags=0,
        status_code=STATUS_UNSET,
        status_message="",
        attributes=attributes,
        events=[],
        dropped_attributes_count=0,
        scope="example",
        resource=resource,
    )
