"""Judged traces as they are delivered, for tests of whatever stores or reads them."""

from hashlib import blake2b
from typing import Any

from build.records import decisions_of, summary_of, tool_call_of
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.codec.results import new_result
from tracegrade.model.span import Resource, Span
from tracegrade.model.trace_result import TraceResult

MINUTE_NS = 60_000_000_000
# 2026-01-01T00:00:00Z: a whole minute.
START_NS = 1_767_225_600_000_000_000

AGENT_SPAN = "00f067aa0ba902b7"


def trace_id(number: int) -> str:
    return f"{number:032x}"


def spans(number: int, service: str = "shop") -> list[Span]:
    resource = Resource({"service.name": service})
    trace = bytes.fromhex(trace_id(number))
    root, child = bytes.fromhex(AGENT_SPAN), bytes.fromhex("00f067aa0ba902b8")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "create_order",
        "gen_ai.tool.call.arguments": '{"total":3}',
        "gen_ai.tool.call.result": '{"ok":true}',
    }
    second = 1_000_000_000
    end = START_NS + second
    return [
        Span(trace, root, b"", "invoke_agent support", 1, START_NS, end, 0, 0, "", agent, [], 0, "s", resource),
        Span(trace, child, root, "execute_tool create_order", 1, START_NS, end, 0, 2, "no", tool, [], 0, "s", resource),
    ]


def evaluation(number: int, outcome: str = "pass", **changes: Any) -> dict[str, Any]:
    item: dict[str, Any] = {
        "tenant": "default",
        "run": "live",
        "rule_id": "checkout-order",
        "rule_hash": "0123456789abcdef",
        "evaluation": "tool-call-order",
        "evaluator": "tool-call-order",
        "case": None,
        "subject": {"kind": "agent", "id": AGENT_SPAN},
        "trace_id": trace_id(number),
        "span_id": AGENT_SPAN,
        "session": None,
        "agent": "support",
        "service": "shop",
        "release": "1.0",
        "level": "high",
        "score": {"pass": 1.0, "fail": 0.25}.get(outcome),
        "label": outcome,
        "threshold": 0.9,
        "outcome": outcome,
        "reason": "" if outcome in ("pass", "fail") else "create_order has no arguments",
        "explanation": "1 of 4 expected calls came in order." if outcome == "fail" else "",
        "details": {"expected": ["validate_user"], "actual": []} if outcome == "fail" else {},
        "close_reason": "settled",
        "complete": True,
        "missing": [],
        "revision": 2,
        "probability": 1.0,
        "time": START_NS + number,
    } | changes
    names = ("tenant", "run", "trace_id", "subject", "rule_id", "rule_hash", "evaluation", "case", "revision")
    item["id"] = blake2b(repr([item[name] for name in names]).encode(), digest_size=16).hexdigest()
    return item


def tool_call(**changes: Any) -> dict[str, Any]:
    call: dict[str, Any] = {
        "name": "create_order",
        "raw_name": "create_order",
        "call_id": "call_1",
        "arguments": {"total": 3},
        "arguments_status": "ok",
        "output": {"ok": True},
        "output_status": "ok",
        "error": None,
        "start_ns": START_NS + 1000,
        "end_ns": START_NS + 250_000_000,
        "span_id": "00f067aa0ba902b8",
        "agent": "support",
        "agent_span_id": AGENT_SPAN,
        "depth": 0,
        "batch": None,
        "attempt": 1,
        "read_from": "span",
        "dialect": "gen_ai",
        "message_path": None,
        "also_seen_in": [],
        "duplicate_of": None,
    }
    return call | changes


def judged(
    number: int,
    outcome: str = "pass",
    *,
    evaluations: list[dict[str, Any]] | None = None,
    decisions: list[dict[str, Any]] | None = None,
    tool_calls: list[dict[str, Any]] | None = None,
    **changes: Any,
) -> TraceResult:
    """Trace `number`, received that many minutes after START_NS, with one evaluation of `outcome` unless told."""
    received = START_NS + number * MINUTE_NS
    trace: dict[str, Any] = {
        "tenant": "default",
        "run": "live",
        "trace_id": trace_id(number),
        "revision": 2,
        "supersedes": None,
        "service": "shop",
        "release": "1.0",
        "session": None,
        "root_name": "invoke_agent support",
        "resource": {"service.name": "shop"},
        "close_reason": "settled",
        "complete": True,
        "missing": [],
        "cut_by": None,
        "span_count": 2,
        "call_count": 1,
        "start_ns": START_NS,
        "end_ns": START_NS + 1_000_000_000,
        "first_received_ns": received,
        "last_received_ns": received,
        "first_position": 10,
        "last_position": 20,
        "closed_ns": received + 2_000_000_000,
        "rule_set_hash": "rules",
        "settings_hash": "settings",
    } | changes
    if evaluations is None:
        shared = {key: trace[key] for key in ("tenant", "run", "service", "release", "revision", "complete", "missing")}
        evaluations = [evaluation(number, outcome, **shared)]
    calls = [tool_call_of(item) for item in ([tool_call()] if tool_calls is None else tool_calls)]
    return new_result(
        summary_of(**trace), encode_spans(spans(number), []), calls, decisions_of(evaluations, decisions or ())
    )
