"""Sessions: the part of a trace that belongs to a session, and the parts of a session joined."""

from collections.abc import Iterable
from dataclasses import fields, replace
from operator import attrgetter

from tracegrade.extract.across import fold_across, scopes_of
from tracegrade.extract.later_results import fill_in, results_for_others
from tracegrade.extract.trace_context import ExtractionContext
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import SessionPart
from tracegrade.model.tool_call import ToolCall

_FIELDS = attrgetter(*(item.name for item in fields(ToolCall)))  # a quarter of the time of `replace`


def session_ids(extraction: Extraction) -> list[str]:
    """The conversation ids of a trace's runs, in order of the first run of each."""
    return list(dict.fromkeys(name for run in extraction.runs if (name := _session(run, extraction))))


def part_of(extraction: Extraction, session_id: str) -> SessionPart | None:
    """What a trace has of one session; None when it has nothing. It shares runs and calls with the extraction."""
    runs = [run for run in extraction.runs if _session(run, extraction) == session_id]
    if not runs:
        return None
    of_runs = {id(call) for run in runs for call in run.calls}
    calls = [call for call in extraction.calls if id(call) in of_runs]
    scopes = scopes_of(extraction)
    around = ExtractionContext(replace(extraction, runs=runs, calls=calls))
    return SessionPart(
        trace=extraction.trace.outline(),
        runs=runs,
        calls=calls,
        release=extraction.release,
        scopes={call.span_id: scopes[call.span_id] for call in calls},
        results=results_for_others(extraction.trace, calls),
        tool_definitions=around.tool_definitions(),
        usages=around.usages(runs),
        unread=around.first_unread(None),
        handoffs=around.handoffs(None),
        redacted=extraction.redacted,
    )


def _session(run: AgentRun, extraction: Extraction) -> str | None:
    return run.session or extraction.session


def joined(parts: Iterable[SessionPart]) -> tuple[list[SessionPart], list[ToolCall]]:
    """The parts of one session in order of (start, trace id), and their calls in order of start.

    A call that a second instrumentation shows in another part as well is there once, and one without a result has the
    one that another part tells for its call id. Within a trace calls keep their order: one without a time comes with
    those around it. Batches and turns are numbered anew, so that those of two traces differ. The parts given, which a
    later turn of the session is joined with again, stay as they are.

    Example, two turns of one conversation, each a trace with one call::

        part of trace A, starts at 0:   find_order()   start 10, batch 0, no result
        part of trace B, starts at 50:  refund()       start 60, batch 0; its model call was given find_order's result

        joined:  A, B;  find_order() batch 0 with that result, refund() batch 1
    """
    given = sorted(parts, key=lambda part: (part.trace.start_ns, part.trace.trace_id))
    if len(given) == 1:
        return given, given[0].calls
    ordered = [_copy(part) for part in given]
    fold_across(ordered)
    fill_in(ordered)
    ordered = [_without_duplicates(part) for part in ordered]
    placed: list[tuple[int, int, int, ToolCall]] = []
    batches: dict[tuple[int, int], int] = {}
    turns: dict[tuple[int, int], int] = {}
    for place, part in enumerate(ordered):
        at_ns = part.trace.start_ns
        for position, call in enumerate(part.calls):
            at_ns = max(at_ns, call.start_ns)
            placed.append((at_ns, place, position, call))
            if call.batch is not None:
                call.batch = batches.setdefault((place, call.batch), len(batches))
            if call.turn is not None:
                call.turn = turns.setdefault((place, call.turn), len(turns))
    placed.sort(key=lambda item: item[:3])
    return ordered, [call for *_, call in placed]


def _copy(part: SessionPart) -> SessionPart:
    """A part whose calls can be changed."""
    copies = {id(call): ToolCall(*_FIELDS(call)) for call in part.calls}
    runs = [replace(run, calls=[copies[id(call)] for call in run.calls]) for run in part.runs]
    return replace(part, runs=runs, calls=list(copies.values()))


def _without_duplicates(part: SessionPart) -> SessionPart:
    if all(call.duplicate_of is None for call in part.calls):
        return part
    calls = [call for call in part.calls if call.duplicate_of is None]
    runs = [replace(run, calls=[call for call in run.calls if call.duplicate_of is None]) for run in part.runs]
    return replace(part, runs=runs, calls=calls)
