"""Checks the ids of spans, and takes out spans with bad ones.

Only ids are touched: reading every attribute would cost several times the parsing.
"""

from typing import Any

_ZERO_TRACE_ID = bytes(16)
_ZERO_SPAN_ID = bytes(8)

BAD_IDS = {
    "invalid_trace_id": "trace ids must be 16 bytes and not all zero",
    "invalid_span_id": "span ids must be 8 bytes and not all zero",
    "invalid_parent_span_id": "parent span ids must be empty or 8 bytes",
}


def all_ids_are_whole(spans: Any) -> bool:
    """`bad_id` of every span at once, without a call for each: all of the work that is done per span."""
    for span in spans:
        trace_id, span_id, parent_span_id = span.trace_id, span.span_id, span.parent_span_id
        if (
            len(trace_id) != 16
            or len(span_id) != 8
            or (parent_span_id and len(parent_span_id) != 8)
            or trace_id == _ZERO_TRACE_ID
            or span_id == _ZERO_SPAN_ID
        ):
            return False
    return True


def take_out_bad_spans(spans: Any) -> list[tuple[str, Any]]:
    """Delete the spans with bad ids from `spans`; returns each with its reason, a key of `BAD_IDS`."""
    kept, taken_out = [], []
    for span in spans:
        if reason := bad_id(span):
            taken_out.append((reason, span))
        else:
            kept.append(span)
    # One by one from within would take quadratic time.
    del spans[:]
    spans.extend(kept)
    return taken_out


def bad_id(span: Any) -> str:
    """The reason to reject `span`, "" when its ids are whole."""
    if len(span.trace_id) != 16 or span.trace_id == _ZERO_TRACE_ID:
        return "invalid_trace_id"
    if len(span.span_id) != 8 or span.span_id == _ZERO_SPAN_ID:
        return "invalid_span_id"
    if span.parent_span_id and len(span.parent_span_id) != 8:
        return "invalid_parent_span_id"
    return ""
