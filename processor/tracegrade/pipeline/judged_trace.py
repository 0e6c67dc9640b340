"""What was judged as the record that travels to the sinks."""

from operator import attrgetter
from typing import Any

from tracegrade.deliver.record import JudgedTrace
from tracegrade.judge import Judgement
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.evaluation import Decision
from tracegrade.model.session import Session, session_trace_id
from tracegrade.model.trace import Trace
from tracegrade.pipeline.record_judge import Judged, JudgedSession
from tracegrade.store.kept_spans import encode_spans
from tracegrade.version import tracegrade_version

_START = attrgetter("start_ns")
_END = attrgetter("end_ns")


def record_of(judged: Judged, run: str, settings_hash: str) -> JudgedTrace:
    """Pack what was judged; equal judgements give equal records."""
    if isinstance(judged, JudgedSession):
        return judged_session(judged.session, judged.decisions, run, settings_hash)
    return judged_trace(judged.trace, judged.judgement, run, settings_hash)


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
        "start_ns": trace.spans[0].start_ns,
        "end_ns": max(map(_END, trace.spans)),
        "first_received_ns": trace.first_received_ns,
        "last_received_ns": trace.last_received_ns,
        "first_position": trace.first_position,
        "last_position": trace.last_position,
        "closed_ns": trace.closed_ns,
        "rule_set_hash": trace.rule_set,
        "tracegrade": tracegrade_version(),
        "settings_hash": settings_hash,
        "runs": [_run(agent_run) for agent_run in extraction.runs],
    }
    return JudgedTrace(
        head,
        encode_spans(trace.spans, trace.replaced, trace.log_records, trace.wanted),
        extraction.calls,
        judgement.decisions,
    )


def judged_session(session: Session, decisions: list[Decision], run: str, settings_hash: str) -> JudgedTrace:
    """Pack one judged session; its tool calls and spans are those of its traces, which have records of their own."""
    last = session.last.trace if session.parts else None
    root = last.root if last is not None else None
    head: dict[str, Any] = {
        "tenant": session.tenant,
        "run": run,
        "trace_id": (last.trace_id if last else session_trace_id(session.tenant, session.id)).hex(),
        "revision": session.revision,
        "supersedes": session.supersedes,
        "service": session.parts[0].trace.resource.service if session.parts else "",
        "release": session.parts[0].release if session.parts else None,
        "session": session.id,
        "members": {trace_id.hex(): revision for trace_id, revision in session.members.items()},
        "root_name": None,
        "resource": last.resource.attributes if last is not None else {},
        "close_reason": session.close_reason,
        "complete": session.complete,
        "missing": session.missing,
        "cut_by": session.cut_by,
        "span_count": sum(len(part.trace.spans) for part in session.parts),
        "call_count": len(session.calls),
        "earliest_span_id": last.spans[0].span_id.hex() if last is not None else None,
        "root_span_id": root.span_id.hex() if root else None,
        "start_ns": min(map(_START, session.runs), default=0),
        "end_ns": max(map(_END, session.runs), default=0),
        "first_received_ns": session.first_received_ns,
        "last_received_ns": session.closed_ns,
        "first_position": 0,
        "last_position": 0,
        "closed_ns": session.closed_ns,
        "rule_set_hash": session.rule_set,
        "tracegrade": tracegrade_version(),
        "settings_hash": settings_hash,
        "runs": [],
    }
    return JudgedTrace(head, b"", [], decisions)


def _run(run: AgentRun) -> dict[str, Any]:
    return {
        "span_id": run.span_id,
        "agent": run.agent,
        "parent_span_id": run.parent_span_id,
        "session": run.session,
        "model": run.model,
    }
