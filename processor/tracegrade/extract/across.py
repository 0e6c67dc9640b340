"""Doubles across traces: two instrumentations without a common parent write one call into two traces."""

from collections.abc import Sequence
from typing import NamedTuple

from tracegrade.extract.folding import MAX_COMPARED, NEAR_NS, names_match
from tracegrade.extract.values import canonical
from tracegrade.model.extraction import Extraction
from tracegrade.model.tool_call import ToolCall


class _Shown(NamedTuple):
    call: ToolCall
    extraction: Extraction
    scope: str
    has_model: bool  # whether its trace shows model calls as well


def fold_across(extractions: Sequence[Extraction]) -> None:
    """Mark calls that a second instrumentation shows in another trace: sets their `duplicate_of`.

    Twins have different scopes, one tool and equal arguments, and start and end within `NEAR_NS` of each other. The
    one that stays is in the trace that shows model calls as well, else the one that started first.
    """
    found = [shown for extraction in extractions for shown in _timed_calls(extraction)]
    found.sort(key=lambda shown: (shown.call.start_ns, shown.extraction.trace.trace_id, shown.call.span_id))
    unmatched: dict[str, list[_Shown]] = {}
    for shown in found:
        seen = unmatched.setdefault(canonical(shown.call.arguments), [])
        seen[:] = [other for other in seen if shown.call.start_ns - other.call.start_ns <= NEAR_NS][-MAX_COMPARED:]
        twin = next((other for other in seen if _are_twins(other, shown)), None)
        if twin is None:
            seen.append(shown)
            continue
        seen.remove(twin)  # one to one
        keep, drop = (shown, twin) if shown.has_model and not twin.has_model else (twin, shown)
        drop.call.duplicate_of = f"{keep.extraction.trace.trace_id.hex()}/{keep.call.subject_id}"


def _timed_calls(extraction: Extraction) -> list[_Shown]:
    scopes = {span.span_id.hex(): span.scope for span in extraction.trace.spans}
    has_model = any(run.model is not None for run in extraction.runs)
    return [
        _Shown(call, extraction, scopes[call.span_id], has_model)
        for call in extraction.calls
        if call.read_from != "message" and isinstance(call.arguments, dict)
    ]


def _are_twins(one: _Shown, other: _Shown) -> bool:
    return (
        one.extraction is not other.extraction
        and one.scope != other.scope
        and names_match(one.call.name, other.call.name)
        and abs(one.call.end_ns - other.call.end_ns) <= NEAR_NS
    )
