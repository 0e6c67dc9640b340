"""A new rule with its tests and traces, to start with: an example, or made from a recorded trace.

The example says in which order two tools are called. A rule from a trace expects the calls of that trace in their
order: the trace passes, and a run of the same agent that calls nothing fails. From a trace without calls, it is the
other way round.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from tracegrade.document.yaml_text import dumped
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import KIND_INTERNAL, STATUS_UNSET, Resource, Span
from tracegrade.otlp.from_spans import trace_request
from tracegrade.otlp.json import to_json

if TYPE_CHECKING:
    from tracegrade.model.agent_run import AgentRun
    from tracegrade.model.extraction import Extraction

SCHEMA = "schema.json"
_SCHEMA_LINE = "# yaml-language-server: $schema=../../schema.json\n"
_EXAMPLE_NS = 1_767_225_600_000_000_000  # 2026-01-01
_STEP_NS = 1_000_000_000
_EXAMPLE_CALLS = ("look_up_order", "refund_order")
_EXAMPLE_PROMPT = "Please refund order A-17."
_SMALL = ({"key", "value"}, {"name"}, {"code"})

_HEAD = """\
{schema}id: {id}
title: {title}
# What is judged, and why, for people who see a fail.
description: {description}
status: experimental  # judged and stored, never alerts; stable when it failed and passed on traces of two dialects
level: medium
"""


class NewRuleError(TraceGradeError):
    """A rule cannot be made here; the message says why."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What is written: the rule's YAML, and for each trace its file's name, its description, outcome and requests."""

    rule: str
    evaluation: str
    traces: Sequence[tuple[str, str, str, Sequence[dict[str, JsonValue]]]]


def example(rule_id: str) -> Draft:
    """The example's rule."""
    names = list(_EXAMPLE_CALLS)
    head = _HEAD.format(
        schema=_SCHEMA_LINE,
        id=rule_id,
        title="An order was refunded before it was looked up",
        description="The agent looks an order up before it refunds it.",
    )
    body = f"""\
scope: agent
match:
  service: help-desk
  tools: [{names[-1]}]
evaluate:
  - evaluator: tool-call-order
    tool_calls_order: [{", ".join(names)}]
false_positives:
  - The order was looked up in an earlier turn, in a trace of its own
"""
    return Draft(
        head + body,
        "tool-call-order",
        [
            ("looked_up_then_refunded.json", "looked up, then refunded", "pass", [_run("help-desk", "support", names)]),
            ("refunded_at_once.json", "refunded at once", "fail", [_run("help-desk", "support", names[1:])]),
        ],
    )


def from_trace(rule_id: str, extraction: "Extraction", requests: Sequence[dict[str, JsonValue]]) -> Draft:
    """A rule that expects the calls of one trace; `requests` are the trace as it will be written beside the rule."""
    service = extraction.trace.resource.service
    agent = next((run.agent for run in extraction.runs if run.calls), extraction.runs[0].agent)
    same = [run for run in extraction.runs if run.agent == agent]
    calls, scope = (same[0].calls, "agent") if len(same) == 1 else (extraction.calls, "trace")
    if scope == "trace":
        agent = _outermost(extraction.runs).agent
    names = [call.name for call in calls]
    clauses = {name: _escaped(value) for name, value in (("service", service), ("agent", agent)) if value}
    trace_id = extraction.trace.trace_id.hex()
    if names:
        evaluation: dict[str, JsonValue] = {"evaluator": "tool-call-order", "tool_calls_order": [*names]}
        title, other, described = "The tools were not called in the usual order", [], "nothing was called"
    else:
        evaluation = {"evaluator": "abstention", "should_call_tool": False}
        title, other, described = "A tool was called where none is needed", ["look_up"], "a tool was called"
    head = _HEAD.format(
        schema=_SCHEMA_LINE,
        id=rule_id,
        title=title,
        description=f"What trace {trace_id} did is what is expected.",
    )
    match = {"match": clauses} if clauses else {}
    body = dumped({"scope": scope, **match, "evaluate": [evaluation]})
    failing = _run(service, agent, other)
    return Draft(
        head + body,
        str(evaluation["evaluator"]),
        [
            (f"{trace_id}.json", "as it was recorded", "pass", requests),
            (f"{described.replace(' ', '_')}.json", described, "fail", [failing]),
        ],
    )


def _outermost(runs: "Sequence[AgentRun]") -> "AgentRun":
    return next((run for run in runs if run.parent_span_id is None), runs[0])


def _escaped(text: str) -> str:
    """The glob that matches exactly this text."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def write(folder: Path, draft: Draft) -> list[Path]:
    """Write the files of a rule into `folder`, which must not be there yet, and the schema for editors above it.

    Returns:
        What was written.

    Raises:
        NewRuleError: the folder is there, or cannot be made.
    """
    from tracegrade.rule.schema import rule_schema

    traces = folder / "traces"
    try:
        traces.mkdir(parents=True)
    except FileExistsError:
        raise NewRuleError(
            f"{folder}: a rule of this id exists already; choose another id, or delete it first"
        ) from None
    except OSError as error:
        raise NewRuleError(f"{folder}: cannot be made: {error.strerror}") from None
    tests = [
        {"description": described, "trace": name, "expect": {draft.evaluation: outcome}}
        for name, described, outcome, _ in draft.traces
    ]
    files = {folder / "rule.yaml": draft.rule, folder / "tests.yaml": dumped(tests)}
    for name, _, _, requests in draft.traces:
        files[traces / name] = trace_file(requests)
    schema = folder.parents[1] / SCHEMA
    if not schema.exists():
        files[schema] = json.dumps(rule_schema(), indent=2, ensure_ascii=False) + "\n"
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def trace_file(requests: Sequence[dict[str, JsonValue]]) -> str:
    """The text of a trace's file: one request laid out to be read, several one a line."""
    one = len(requests) == 1
    return "".join((laid_out(item) if one else json.dumps(item)) + "\n" for item in requests)


def laid_out(value: JsonValue, depth: int = 0) -> str:
    """OTLP/JSON laid out for people: indented, one attribute a line."""
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value and set(value) not in _SMALL:
        members = [f"{inner}{json.dumps(key)}: {laid_out(member, depth + 1)}" for key, member in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{outer}}}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(inner + laid_out(item, depth + 1) for item in value) + f"\n{outer}]"
    return json.dumps(value, ensure_ascii=False)


def _run(service: str, agent: str, names: Sequence[str]) -> dict[str, JsonValue]:
    """A made-up run, as the GenAI conventions write it: an agent's span, and one for each call."""
    resource = Resource({"service.name": service})
    trace_id = blake2b("/".join([service, agent, *names]).encode(), digest_size=16).digest()
    root: dict[str, JsonValue] = {
        "gen_ai.operation.name": "invoke_agent",
        **({"gen_ai.agent.name": agent} if agent else {}),
        "gen_ai.input.messages": _message("user", _EXAMPLE_PROMPT),
        "gen_ai.output.messages": _message("assistant", "Done."),
    }
    spans = [_span(trace_id, 1, f"invoke_agent {agent}".strip(), 0, 2 * len(names) + 1, root, resource)]
    for place, name in enumerate(names):
        call: dict[str, JsonValue] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": f"call_{place + 1}",
            "gen_ai.tool.call.arguments": json.dumps({"order_id": "A-17"}),
            "gen_ai.tool.call.result": json.dumps({"order_id": "A-17", "status": "ok"}),
        }
        spans.append(_span(trace_id, place + 2, f"execute_tool {name}", 2 * place + 1, 2 * place + 2, call, resource))
    return to_json(trace_request(spans))


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _span(
    trace_id: bytes, number: int, name: str, start: int, end: int, attributes: dict[str, JsonValue], resource: Resource
) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=trace_id[:7] + bytes([number]),
        parent_span_id=b"" if number == 1 else trace_id[:7] + b"\1",
        name=name,
        kind=KIND_INTERNAL,
        start_ns=_EXAMPLE_NS + start * _STEP_NS,
        end_ns=_EXAMPLE_NS + end * _STEP_NS,
        flags=0,
        status_code=STATUS_UNSET,
        status_message="",
        attributes=attributes,
        events=[],
        dropped_attributes_count=0,
        scope="example",
        resource=resource,
    )
