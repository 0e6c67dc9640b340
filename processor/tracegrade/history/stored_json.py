"""Everything stored of a trace as JSON: what ``tracegrade traces show`` and the API give; and as OTLP/JSON."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tracegrade.codec.kept_spans import trace_of
from tracegrade.display import json_text, printable_json
from tracegrade.extract.extract import extract
from tracegrade.extract.how_read import UnreadSpan, spans_not_read
from tracegrade.extract.joining import join
from tracegrade.extract.registry import in_force
from tracegrade.model.span import Span
from tracegrade.model.trace import Trace
from tracegrade.model.trace_result import TraceResult


def stored_json(stored: TraceResult, shown: Callable[[Any], Any] = lambda found: found) -> dict[str, Any]:
    """{trace, tool_calls, evaluations, decisions, spans, unread}; log records are among the events of their spans.

    ``values_deleted`` is there, and true, when values and spans were deleted because they are too old. Evaluations that
    were made afterwards, by ``rules backtest --store``, say so by their run.

    Args:
        stored: the trace or session.
        shown: makes of a trace, and of a list of spans, what is shown of it.

    Raises:
        Unreadable: its spans are damaged, or were stored by another version.
    """
    spans: Sequence[Span] = []
    unread: Sequence[UnreadSpan] = []
    values_gone = stored.values_are_gone
    if stored.trace.members is None and not values_gone:
        trace = trace_of(stored)
        spans = shown(_with_log_records(trace))
        unread = spans_not_read(extract(trace))
    stored = shown(stored)
    return {
        "trace": stored.trace.to_json(),
        "tool_calls": [call.to_json() for call in stored.tool_calls],
        "evaluations": [evaluation.to_json() for evaluation in stored.evaluations_of_any_run],
        "decisions": [decision.to_json() for decision in stored.decisions],
        "spans": [_span_json(span) for span in spans],
        "unread": [span._asdict() for span in unread],
        **({"values_deleted": True} if values_gone else {}),
    }


def otlp_lines(stored: TraceResult) -> Iterator[str]:
    """What was kept of a trace as OTLP/JSON, a request a line: its spans, and its log records if it has any.

    Raises:
        Unreadable: its spans are damaged, or were stored by another version.
    """
    from tracegrade.otlp.from_spans import requests_of
    from tracegrade.otlp.json import to_json

    for request in requests_of(trace_of(stored)):
        yield printable_json(json_text(to_json(request))) + "\n"


def _with_log_records(trace: Trace) -> Sequence[Span]:
    return join(trace.spans, trace.log_records, in_force().events) if trace.log_records else trace.spans


def _span_json(span: Span) -> dict[str, Any]:
    return {
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex() or None,
        "name": span.name,
        "kind": span.kind,
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "status_code": span.status_code,
        "status_message": span.status_message,
        "attributes": span.attributes,
        "events": [
            {"name": event.name, "time_ns": event.time_ns, "attributes": event.attributes} for event in span.events
        ],
        "scope": span.scope,
        "resource": span.resource.attributes,
        "unread_keys": span.unread_keys,
    }
