"""Rows of the Parquet tables made of one judged trace, in the order of `columns`."""

from typing import Any, TypeAlias

from tracegrade.codec.json_text import to_json
from tracegrade.display import error_type, explanation
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace_result import TraceResult, TraceSummary

Row: TypeAlias = tuple[Any, ...]

_GIVEN_NOT = ("absent", "elsewhere")
_MAX_INTEGER = 2**63 - 1
_MOST_MISSING = 20
_NO_EVALUATION: Row = (None,) * 10
_NOT_MEASURED: Row = (None, None, None)
# What the row of a trace without results has after the columns of the trace: a subject, a rule, and measures.
_NO_RESULT: Row = (None,) * 17


def result_rows(judged: TraceResult, include_values: bool) -> list[Row]:
    """One row for each evaluation, and for each decision that has none; none where the sample left a subject out.

    A trace without any gets one row if it replaces an earlier revision, which may have had results.
    """
    trace, members = judged.trace, judged.trace.members
    of_trace = (
        *_of_trace(trace),
        None if members is None else [member.hex() for member in members],
        _time(trace.closed_ns),
        trace.close_reason,
        bool(trace.complete),
        trace.missing[:_MOST_MISSING] or None,
        trace.rule_set_hash,
        trace.tracegrade,
    )
    rows = []
    for decision in judged.decisions:
        if decision.kind == "sampled_out":
            continue
        shared = (*of_trace, *_of_decision(decision))
        if decision.evaluations:
            rows += [(*shared, *_of_evaluation(item, include_values)) for item in decision.evaluations]
        else:
            rows.append((*shared, *_NO_EVALUATION))
    if not rows and trace.supersedes is not None:
        rows.append((*of_trace, *_NO_RESULT, *_NO_EVALUATION))
    return rows


def call_rows(judged: TraceResult, include_values: bool) -> list[Row]:
    """One row for each tool call."""
    if not judged.tool_calls:
        return []
    trace = judged.trace
    shared = (*_of_trace(trace), trace.service or None, trace.release or None, trace.session or None)
    return [(*shared, number, *_of_call(call, include_values)) for number, call in enumerate(judged.tool_calls)]


def _of_trace(trace: TraceSummary) -> Row:
    return (
        trace.run,
        trace.own_id.hex(),
        trace.revision,
        trace.trace_id,
        _time(trace.first_received_ns),
    )


def _of_decision(decision: Decision) -> Row:
    pair = decision.pair
    subject = pair.subject
    known: dict[str, Any] = dict(decision.measured)
    measured = (known.get("tokens"), known.get("cost"), known.get("duration")) if known else _NOT_MEASURED
    return (
        subject.kind,
        subject.id or None,
        subject.span_id,
        _time(subject.time),
        subject.service or None,
        subject.release or None,
        subject.session or None,
        subject.agent or None,
        pair.rule_id or None,
        pair.rule_hash,
        pair.level,
        pair.probability,
        decision.kind,
        decision.outcome or decision.kind,
        *measured,
    )


def _of_evaluation(item: Evaluation, include_values: bool) -> Row:
    reason = item.reason
    if reason and item.outcome == "error" and not include_values:
        reason = error_type(item)
    return (
        item.id,
        item.evaluation or None,
        item.evaluator,
        item.case or None,
        item.threshold,
        item.score,
        item.outcome,
        reason or None,
        explanation(item, include_values) or None,
        _json(item.details) if include_values else None,
    )


def _of_call(call: ToolCall, include_values: bool) -> Row:
    error = call.error
    timed = call.end_ns > 0
    return (
        call.name or None,
        call.raw_name or None,
        call.call_id or None,
        call.agent or None,
        call.agent_span_id or None,
        call.span_id,
        call.subject_id or None,
        _time(call.start_ns) if timed else None,
        _time(call.end_ns) if timed else None,
        min(max(call.end_ns - call.start_ns, 0), _MAX_INTEGER) if timed else None,
        call.arguments_status,
        call.output_status,
        None if error is None else error.type,
        call.depth,
        call.batch,
        call.attempt,
        call.dialect,
        call.duplicate_of or None,
        _json(call.arguments) if include_values and call.arguments_status not in _GIVEN_NOT else None,
        _json(call.output) if include_values and call.output_status not in _GIVEN_NOT else None,
        error.message if include_values and error is not None else None,
    )


def _json(value: Any) -> str:
    return to_json(value).decode().strip()


def _time(time_ns: int) -> int:
    """Microseconds since 1970 UTC: what every reader of Parquet understands as a time with a zone."""
    return min(time_ns, _MAX_INTEGER) // 1000
