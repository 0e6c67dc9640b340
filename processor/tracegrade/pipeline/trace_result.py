"""Packs a judged trace or session into the record that leaves the judge."""

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter

from tracegrade.codec.kept_spans import encode_spans
from tracegrade.codec.results import new_result
from tracegrade.extract.run_summaries import run_summaries
from tracegrade.extract.token_usage import ModelCall, model_calls, usage_of
from tracegrade.judge import Judgement
from tracegrade.model.agent_run import first_words
from tracegrade.model.evaluation import Decision
from tracegrade.model.session import Session, session_trace_id
from tracegrade.model.trace import Trace
from tracegrade.model.trace_result import TraceResult, TraceSummary
from tracegrade.model.usage import CostOf, no_prices
from tracegrade.pipeline.judged import Judged, JudgedSession
from tracegrade.pipeline.version import tracegrade_version

_START = attrgetter("start_ns")
_END = attrgetter("end_ns")


def result_of(judged: Judged, run: str, settings_hash: str) -> TraceResult:
    """Pack a judged trace or session; equal judgements give equal bytes."""
    if isinstance(judged, JudgedSession):
        return session_result(judged.session, judged.decisions, run, settings_hash)
    return trace_result(judged.trace, judged.judgement, run, settings_hash)


def trace_result(trace: Trace, judgement: Judgement, run: str, settings_hash: str) -> TraceResult:
    """Pack one judged trace; equal judgements give equal bytes."""
    extraction = judgement.extraction
    root = trace.root
    calls, runs = {}, []
    if judgement.not_decoded is None:
        calls = model_calls(extraction)
        runs = run_summaries(extraction, calls)
    summary = TraceSummary(
        tenant=trace.tenant,
        run=run,
        trace_id=trace.trace_id.hex(),
        revision=trace.revision,
        supersedes=trace.supersedes,
        service=trace.resource.service,
        release=extraction.release,
        session=extraction.session,
        root_name=root.name if root else None,
        resource=trace.resource.attributes,
        close_reason=trace.close_reason,
        complete=trace.complete,
        missing=trace.missing,
        cut_by=trace.cut_by,
        span_count=len(trace.spans),
        call_count=len(extraction.calls),
        earliest_span_id=trace.spans[0].span_id.hex(),
        root_span_id=root.span_id.hex() if root else None,
        start_ns=trace.spans[0].start_ns,
        end_ns=max(map(_END, trace.spans)),
        first_received_ns=trace.first_received_ns,
        last_received_ns=trace.last_received_ns,
        first_position=trace.first_position,
        last_position=trace.last_position,
        closed_ns=trace.closed_ns,
        rule_set_hash=trace.rule_set,
        tracegrade=tracegrade_version(),
        settings_hash=settings_hash,
        runs=runs,
        not_decoded=judgement.not_decoded,
        cost=_cost(calls, judgement.cost_of),
        prompt=first_words(extraction.runs),
    )
    return new_result(
        summary,
        encode_spans(trace.spans, trace.replaced, trace.log_records, trace.filter_hash),
        extraction.calls,
        judgement.decisions,
    )


def _cost(calls: Mapping[str | None, Sequence[ModelCall]], cost_of: CostOf) -> float | None:
    """What model calls cost, by run; to read their models takes as long as to read their tokens."""
    if cost_of is no_prices:
        return None
    return cost_of([usage_of(call) for call in chain.from_iterable(calls.values())]).amount


def session_result(session: Session, decisions: list[Decision], run: str, settings_hash: str) -> TraceResult:
    """Pack one judged session; its tool calls and spans are those of its traces, which have records of their own."""
    last = session.last.trace if session.parts else None
    root = last.root if last is not None else None
    summary = TraceSummary(
        tenant=session.tenant,
        run=run,
        trace_id=(last.trace_id if last else session_trace_id(session.tenant, session.id)).hex(),
        revision=session.revision,
        supersedes=session.supersedes,
        service=session.parts[0].trace.resource.service if session.parts else "",
        release=session.parts[0].release if session.parts else None,
        session=session.id,
        members=dict(session.members),
        root_name=None,
        resource=last.resource.attributes if last is not None else {},
        close_reason=session.close_reason,
        complete=session.complete,
        missing=session.missing,
        cut_by=session.cut_by,
        span_count=sum(part.trace.span_count for part in session.parts),
        call_count=len(session.calls),
        earliest_span_id=last.first_span_id.hex() if last is not None else None,
        root_span_id=root.span_id.hex() if root else None,
        start_ns=min(map(_START, session.runs), default=0),
        end_ns=max(map(_END, session.runs), default=0),
        first_received_ns=session.first_received_ns,
        last_received_ns=session.closed_ns,
        first_position=0,
        last_position=0,
        closed_ns=session.closed_ns,
        rule_set_hash=session.rule_set,
        tracegrade=tracegrade_version(),
        settings_hash=settings_hash,
        runs=[],
    )
    return new_result(summary, b"", [], decisions)
