"""What of a trace belongs to a session, and the parts of a session put together."""

from collections.abc import Iterable
from dataclasses import replace

from tracegrade.extract.across import fold_across
from tracegrade.extract.later_results import fill_in
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.tool_call import ToolCall


def session_ids(extraction: Extraction) -> list[str]:
    """The conversation ids of a trace's runs, in order of the first run of each."""
    return list(dict.fromkeys(name for run in extraction.runs if (name := _session(run, extraction))))


def part_of(extraction: Extraction, session_id: str) -> Extraction | None:
    """The runs and calls of a trace that belong to one session, as copies; None when it has none."""
    runs = [run for run in extraction.runs if _session(run, extraction) == session_id]
    if not runs:
        return None
    copies = {id(call): replace(call) for run in runs for call in run.calls}
    return Extraction(
        trace=extraction.trace,
        runs=[replace(run, calls=[copies[id(call)] for call in run.calls]) for run in runs],
        calls=[copies[id(call)] for call in extraction.calls if id(call) in copies],
        session=session_id,
        release=extraction.release,
        unread_tool_spans=extraction.unread_tool_spans,
    )


def _session(run: AgentRun, extraction: Extraction) -> str | None:
    return run.session or extraction.session


def joined(parts: Iterable[Extraction]) -> tuple[list[Extraction], list[ToolCall]]:
    """The parts of one session in order of (start, trace id), and their calls in order of start.

    A call that a second instrumentation shows in another part as well is there once, and one without a result has the
    one that another part tells for its call id. Within a trace calls keep their order: one without a time comes with
    those around it. Batches and turns are numbered anew, so that those of two traces differ.
    """
    ordered = sorted(parts, key=lambda part: (_start_ns(part), part.trace.trace_id))
    if len(ordered) == 1:
        return ordered, ordered[0].calls
    fold_across(ordered)
    fill_in(ordered)
    placed: list[tuple[int, int, int, ToolCall]] = []
    batches: dict[tuple[int, int], int] = {}
    turns: dict[tuple[int, int], int] = {}
    for place, part in enumerate(ordered):
        at_ns = _start_ns(part)
        part.calls = [call for call in part.calls if call.duplicate_of is None]
        for run in part.runs:
            run.calls = [call for call in run.calls if call.duplicate_of is None]
        for position, call in enumerate(part.calls):
            at_ns = max(at_ns, call.start_ns)
            placed.append((at_ns, place, position, call))
            if call.batch is not None:
                call.batch = batches.setdefault((place, call.batch), len(batches))
            if call.turn is not None:
                call.turn = turns.setdefault((place, call.turn), len(turns))
    placed.sort(key=lambda item: item[:3])
    return ordered, [call for *_, call in placed]


def _start_ns(part: Extraction) -> int:
    return part.trace.spans[0].start_ns
