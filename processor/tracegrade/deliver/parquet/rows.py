"""Rows of the Parquet tables made of one judged trace, in the order of `columns`."""

from typing import Any, TypeAlias

from tracegrade.codec.json_text import storable, to_json
from tracegrade.display import error_type, explanation
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace_result import TraceResult, TraceSummary

Row: TypeAlias = tuple[Any, ...]

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
        [storable(text) for text in trace.missing[:_MOST_MISSING]] or None,
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
    shared = (*_of_trace(trace), _text(trace.service), _text(trace.release), _text(trace.session))
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
        _text(subject.id),
        subject.span_id,
        _time(subject.time),
        _text(subject.service),
        _text(subject.release),
        _text(subject.session),
        _text(subject.agent),
        _text(pair.rule_id),
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
        _text(item.evaluation),
        item.evaluator,
        _text(item.case),
        item.threshold,
        item.score,
        item.outcome,
        _text(reason),
        _text(explanation(item, include_values)),
        _json(item.details) if include_values else None,
    )


def _of_call(call: ToolCall, include_values: bool) -> Row:
    error = call.error
    timed = call.end_ns > 0
    return (
        _text(call.name),
        _text(call.raw_name),
        _text(call.call_id),
        _text(call.agent),
        _text(call.agent_span_id),
        call.span_id,
        _text(call.subject_id),
        _time(call.start_ns) if timed else None,
        _time(call.end_ns) if timed else None,
        min(max(call.end_ns - call.start_ns, 0), _MAX_INTEGER) if timed else None,
        call.arguments_status,
        call.output_status,
        None if error is None else storable(error.type),
        call.depth,
        call.batch,
        call.attempt,
        call.dialect,
        _text(call.duplicate_of),
        _json(call.arguments) if include_values and call.arguments_status != "absent" else None,
        _json(call.output) if include_values and call.output_status != "absent" else None,
        storable(error.message) if include_values and error is not None else None,
    )


def _text(text: str | None) -> str | None:
    """`text` as a file takes it; null where it is empty."""
    return (text if text.isascii() else storable(text)) if text else None


def _json(value: Any) -> str:
    return to_json(value).decode().strip()


def _time(time_ns: int) -> int:
    """Microseconds since 1970 UTC: what every reader of Parquet understands as a time with a zone."""
    return min(time_ns, _MAX_INTEGER) // 1000
