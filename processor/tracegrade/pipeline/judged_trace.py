"""A judgement as the record that travels to the sinks."""

from operator import attrgetter
from typing import Any

from tracegrade.deliver.record import JudgedTrace
from tracegrade.judge import Judgement
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.evaluation import Decision
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import Trace
from tracegrade.store.kept_spans import encode_spans

_START = attrgetter("start_ns")
_END = attrgetter("end_ns")


def judged_trace(trace: Trace, judgement: Judgement, run: str, settings_hash: str) -> JudgedTrace:
    """Pack one judged trace; equal judgements give equal records."""
    extraction = judgement.extraction
    root = trace.root
    head: dict[str, Any] = {
        "tenant": trace.tenant,
        "run": run,
        "trace_id": trace.trace_id.hex(),
        "revision": trace.revision,
        "supersedes": trace.supersedes,
        "service": trace.resource.service,
        "release": extraction.release,
        "session": extraction.session,
        "root_name": root.name if root else None,
        "resource": trace.resource.attributes,
        "close_reason": trace.close_reason,
        "complete": trace.complete,
        "missing": trace.missing,
        "cut_by": trace.cut_by,
        "span_count": len(trace.spans),
        "call_count": len(extraction.calls),
        "earliest_span_id": trace.spans[0].span_id.hex(),
        "root_span_id": root.span_id.hex() if root else None,
        "start_ns": min(map(_START, trace.spans)),
        "end_ns": max(map(_END, trace.spans)),
        "first_received_ns": trace.first_received_ns,
        "last_received_ns": trace.last_received_ns,
        "first_position": trace.first_position,
        "last_position": trace.last_position,
        "closed_ns": trace.closed_ns,
        "rule_set_hash": trace.rule_set,
        "settings_hash": settings_hash,
        "runs": [_run(agent_run) for agent_run in extraction.runs],
    }
    return JudgedTrace(
        head,
        encode_spans(trace.spans, trace.replaced),
        [_call(call) for call in extraction.calls],
        [evaluation.to_json() for decision in judgement.decisions for evaluation in decision.evaluations],
        [_decision(decision) for decision in judgement.decisions],
    )


def _run(run: AgentRun) -> dict[str, Any]:
    return {"span_id": run.span_id, "agent": run.agent, "parent_span_id": run.parent_span_id, "session": run.session}


def _call(call: ToolCall) -> dict[str, Any]:
    error = call.error
    return {
        "name": call.name,
        "raw_name": call.raw_name,
        "call_id": call.call_id,
        "arguments": call.arguments,
        "arguments_status": call.arguments_status,
        "output": call.output,
        "output_status": call.output_status,
        "error": {"type": error.type, "message": error.message} if error is not None else None,
        "start_ns": call.start_ns,
        "end_ns": call.end_ns,
        "span_id": call.span_id,
        "agent": call.agent,
        "agent_span_id": call.agent_span_id,
        "depth": call.depth,
        "batch": call.batch,
        "attempt": call.attempt,
        "read_from": call.read_from,
        "dialect": call.dialect,
        "message_path": call.message_path,
        "also_seen_in": call.also_seen_in,
    }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "rule_id": decision.rule_id,
        "rule_hash": decision.rule_hash,
        "subject_kind": decision.subject_kind,
        "subject_id": decision.subject_id,
        "kind": decision.kind,
        "outcome": decision.outcome,
        "reason": decision.reason,
    }
