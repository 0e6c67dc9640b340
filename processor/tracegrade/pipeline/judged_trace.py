"""A judgement as the record that travels to the sinks."""

from operator import attrgetter
from typing import Any

from tracegrade.deliver.record import JudgedTrace
from tracegrade.judge import Judgement
from tracegrade.model.agent_run import AgentRun
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
        encode_spans(trace.spans, trace.replaced, trace.log_records, trace.wanted),
        extraction.calls,
        judgement.decisions,
    )


def _run(run: AgentRun) -> dict[str, Any]:
    return {
        "span_id": run.span_id,
        "agent": run.agent,
        "parent_span_id": run.parent_span_id,
        "session": run.session,
        "model": run.model,
    }
