"""Duplicate calls across traces: two instrumentations without a common parent write one call into two traces."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tracegrade.extract.decode.values import canonical
from tracegrade.extract.folding import MAX_COMPARED, NEAR_NS, names_match
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import SessionPart
from tracegrade.model.tool_call import ToolCall

ReadTrace: TypeAlias = Extraction | SessionPart


class _Shown(NamedTuple):
    call: ToolCall
    trace: ReadTrace
    scope: str
    has_model: bool  # whether its trace shows model calls as well


def fold_across(traces: Sequence[ReadTrace]) -> None:
    """Mark calls that a second instrumentation shows in another trace: sets their `duplicate_of`.

    Twins have different scopes, one tool, one call id or equal arguments, and start and end within `NEAR_NS` of each
    other; of two with one id, one may run within the other's time instead. The one that stays is in the trace that
    shows model calls as well, else the one that started first; it is given what it lacks and the other shows. A call
    that one trace has from messages alone is that of the same id which another has a span of, within the agent's run.
    """
    found = [shown for trace in traces for shown in _timed_calls(trace)]
    found.sort(key=lambda shown: (shown.call.start_ns, shown.trace.trace.trace_id, shown.call.span_id))
    for key_of in (_call_id, _arguments):
        _fold_by(key_of, [shown for shown in found if shown.call.duplicate_of is None])
    _fold_messages(traces, found)


def _call_id(call: ToolCall) -> str | None:
    return call.call_id


def _arguments(call: ToolCall) -> str | None:
    return canonical(call.arguments) if isinstance(call.arguments, dict) else None


def _fold_by(key_of: Callable[[ToolCall], str | None], found: Sequence[_Shown]) -> None:
    unmatched: dict[str, list[_Shown]] = {}
    for shown in found:
        key = key_of(shown.call)
        if key is None:
            continue
        seen = unmatched.setdefault(key, [])
        del seen[:-MAX_COMPARED]
        twin = next((other for other in seen if _are_twins(other, shown)), None)
        if twin is None:
            seen.append(shown)
            continue
        seen.remove(twin)  # one to one
        keep, drop = (shown, twin) if shown.has_model and not twin.has_model else (twin, shown)
        _merge(keep, drop.call)


def _merge(keep: _Shown, call: ToolCall) -> None:
    """Mark `call` as a duplicate of the one that stays, which gets from it what its own trace does not show."""
    call.duplicate_of = f"{keep.trace.trace.trace_id.hex()}/{keep.call.subject_id}"
    kept = keep.call
    kept.call_id = kept.call_id or call.call_id
    if kept.lack_of("arguments", in_part=False) is not None and call.arguments_status != "absent":
        kept.arguments, kept.arguments_status = call.arguments, call.arguments_status
    if kept.lack_of("output", in_part=False) is not None and call.output_status != "absent":
        kept.output, kept.output_status = call.output, call.output_status
    kept.error = kept.error or call.error


def _fold_messages(traces: Sequence[ReadTrace], timed: Sequence[_Shown]) -> None:
    by_id: dict[str, list[_Shown]] = {}
    for shown in timed:
        if shown.call.call_id is not None and shown.call.duplicate_of is None:
            by_id.setdefault(shown.call.call_id, []).append(shown)
    for trace in traces if by_id else ():
        scopes = trace.scopes if isinstance(trace, SessionPart) else scopes_of(trace)
        for run in trace.runs:
            for call in run.calls:
                if call.read_from != "message" or call.call_id is None or call.call_id not in by_id:
                    continue
                same = by_id[call.call_id][:MAX_COMPARED]
                scope = scopes[call.span_id]
                twin = next((shown for shown in same if _is_its_span(shown, trace, run, call, scope)), None)
                if twin is not None:
                    _merge(twin, call)


def _is_its_span(shown: _Shown, trace: ReadTrace, run: AgentRun, call: ToolCall, scope: str) -> bool:
    return (
        shown.trace is not trace
        and shown.scope != scope
        and names_match(shown.call.name, call.name)
        and run.start_ns - NEAR_NS <= shown.call.start_ns <= run.end_ns + NEAR_NS
    )


def scopes_of(extraction: Extraction) -> dict[str, str]:
    """The instrumentation scope of each span, by its hex id."""
    return {span.span_id.hex(): span.scope for span in extraction.trace.spans}


def _timed_calls(trace: ReadTrace) -> list[_Shown]:
    scopes = trace.scopes if isinstance(trace, SessionPart) else scopes_of(trace)
    has_model = any(run.model is not None for run in trace.runs)
    return [_Shown(call, trace, scopes[call.span_id], has_model) for call in trace.calls if call.read_from != "message"]


def _are_twins(one: _Shown, other: _Shown) -> bool:
    if one.trace is other.trace or one.scope == other.scope or not names_match(one.call.name, other.call.name):
        return False
    first, second = one.call, other.call
    if first.call_id is None or second.call_id is None:
        return _are_near(first, second)
    return first.call_id == second.call_id and (_are_near(first, second) or _is_one_within_other(first, second))


def _are_near(one: ToolCall, other: ToolCall) -> bool:
    return abs(one.start_ns - other.start_ns) <= NEAR_NS and abs(one.end_ns - other.end_ns) <= NEAR_NS


def _is_one_within_other(one: ToolCall, other: ToolCall) -> bool:
    """Whether one of two calls ran within the other's time, and their arguments are not known to differ.

    What an instrumentation does between the starts of two spans, or their ends, takes long on a busy machine.
    """
    is_within = one.start_ns <= other.start_ns and other.end_ns <= one.end_ns
    is_around = other.start_ns <= one.start_ns and one.end_ns <= other.end_ns
    if not (is_within or is_around):
        return False
    arguments = [_arguments(call) for call in (one, other) if call.arguments_status != "redacted"]
    return len(set(arguments) - {None}) < 2
