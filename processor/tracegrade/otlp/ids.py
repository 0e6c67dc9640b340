"""Checks the ids of spans and log records, and takes out those with bad ones.

Only ids are touched: reading every attribute would cost several times the parsing.
"""

from collections.abc import Callable
from typing import Any

_ZERO_TRACE_ID = bytes(16)
_ZERO_SPAN_ID = bytes(8)

BAD_IDS = {
    "invalid_trace_id": "trace ids must be 16 bytes and not all zero",
    "invalid_span_id": "span ids must be 8 bytes and not all zero",
    "invalid_parent_span_id": "parent span ids must be empty or 8 bytes",
}
BAD_LOG_IDS = {
    "invalid_trace_id": "trace ids of log records must be empty or 16 bytes",
    "invalid_span_id": "span ids of log records must be empty or 8 bytes",
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
    return _take_out(spans, bad_id)


def take_out_bad_log_records(records: Any) -> list[tuple[str, Any]]:
    """Take out bad log records, which need no ids; the reasons are keys of `BAD_LOG_IDS`."""
    return _take_out(records, _bad_log_id)


def _take_out(items: Any, reason_of: Callable[[Any], str]) -> list[tuple[str, Any]]:
    kept, taken_out = [], []
    for item in items:
        if reason := reason_of(item):
            taken_out.append((reason, item))
        else:
            kept.append(item)
    if taken_out:  # one by one from within would take quadratic time
        del items[:]
        items.extend(kept)
    return taken_out


def _bad_log_id(record: Any) -> str:
    if len(record.trace_id) not in (0, 16):
        return "invalid_trace_id"
    return "" if len(record.span_id) in (0, 8) else "invalid_span_id"


def bad_id(span: Any) -> str:
    """The reason to reject `span`, "" when its ids are whole."""
    if len(span.trace_id) != 16 or span.trace_id == _ZERO_TRACE_ID:
        return "invalid_trace_id"
    if len(span.span_id) != 8 or span.span_id == _ZERO_SPAN_ID:
        return "invalid_span_id"
    if span.parent_span_id and len(span.parent_span_id) != 8:
        return "invalid_parent_span_id"
    return ""
