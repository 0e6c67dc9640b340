"""Everything stored of a trace as JSON: what ``tracegrade traces show`` and the API give."""

from typing import Any

from tracegrade.extract.joining import join
from tracegrade.model.span import Span
from tracegrade.store.kept_spans import KeptSpans, decode_spans
from tracegrade.store.read import StoredTrace


def stored_json(stored: StoredTrace) -> dict[str, Any]:
    """{trace, tool_calls, evaluations, decisions, spans}; log records are among the events of their spans.

    Raises:
        KeptSpansError: its spans are damaged, or were stored by another version.
    """
    kept = decode_spans(stored.spans) if stored.members is None else KeptSpans([], [], [])
    return {
        "trace": stored.trace,
        "tool_calls": [call.to_json() for call in stored.tool_calls],
        "evaluations": [evaluation.to_json() for evaluation in stored.evaluations],
        "decisions": [decision.to_json() for decision in stored.decisions],
        "spans": [_span_json(span) for span in join(kept.spans, kept.log_records)],
    }


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
    }
