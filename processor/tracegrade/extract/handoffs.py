"""Which agent passed its task on to which: handoffs, as calls, spans and agent runs show them.

One handoff often shows in several places: a call ``transfer_to_billing``, a span ``handoff to billing``, and a run of
billing that begins after it. It is one handoff then, that of the first of them. A worked example, which
`tests/extract/test_handoffs.py` repeats::

    agent triage          0-100    call transfer_to_billing at 50       triage -> billing, seen in calls
    agent billing       110-200    a run, after that of triage          (the same)
    agent support       210-300    a run, after that of billing         billing -> support, seen in runs

What runs show: an agent's run inside that of another one was passed on by it, unless a tool call encloses it: an agent
that was called as a tool is a tool. One without an agent around it was passed on by the agent of the last run that
ended before.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import replace
from itertools import accumulate
from operator import attrgetter

from tracegrade.extract.reading import HandedOver
from tracegrade.extract.token_usage import run_around
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.handoff import Handoff, handoffs_among, passed_on_to, plain_name
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolCall

_SUFFIX = "_agent"
# What tracers call the function of a graph that runs an agent, whichever it is (LangGraph, through OpenInference).
_SAME_FOR_ALL = frozenset({"", "agent", "call_agent", "model", "call_model"})


def handoffs_in(extraction: Extraction, readers: Collection[Callable[[Span], HandedOver | None]]) -> list[Handoff]:
    """The handoffs of a trace in order of time; `readers` read what a span says of one."""
    known = {plain_name(run.agent): run.agent for run in extraction.runs if run.agent}
    calls, spans = (
        [replace(each, to_agent=_known_as(each.to_agent, known)) for each in some]
        for some in (handoffs_among(extraction.calls), _of_spans(extraction, readers))
    )
    told = _each_once(calls, spans)
    told.sort(key=attrgetter("start_ns"))
    waiting = _Waiting(told)
    found = [*_of_runs(extraction, waiting)]
    found += [replace(each, to_agent=waiting.taken.get(place, each.to_agent)) for place, each in enumerate(told)]
    found.sort(key=attrgetter("start_ns"))
    return _with_calls_before(found, extraction.calls)


def _known_as(name: str, known: dict[str, str]) -> str:
    """The agent's own name: a tool's has it in lower case, and may leave out or add ``agent``."""
    plain = plain_name(name)
    other = plain.removesuffix(_SUFFIX) if plain.endswith(_SUFFIX) else plain + _SUFFIX
    return known.get(plain) or known.get(other) or name


def _of_spans(extraction: Extraction, readers: Collection[Callable[[Span], HandedOver | None]]) -> Iterator[Handoff]:
    spans = extraction.trace.spans
    said = [(span, told) for span in spans if (told := next(filter(None, (read(span) for read in readers)), None))]
    if not said:
        return
    parents = {span.span_id: span.parent_span_id for span in spans}
    run_of: dict[bytes, str | None] = {bytes.fromhex(run.span_id): run.span_id for run in extraction.runs}
    names = {run.span_id: run.agent for run in extraction.runs}
    for span, told in said:
        run = run_around(span.span_id, parents, run_of) or ""
        from_agent = told.from_agent or names.get(run, "")
        yield Handoff(from_agent, told.to_agent, span.start_ns, span.span_id.hex(), "spans", run)


def _each_once(calls: Sequence[Handoff], spans: Sequence[Handoff]) -> list[Handoff]:
    """Both, where a call and a span after it show one handoff as one: the call, at the time of the span."""
    kept = [*calls]
    shown: set[int] = set()  # the places of calls that a span shows as well
    every = deque(range(len(calls)))
    to_agent: dict[str, deque[int]] = {}
    for place, call in enumerate(calls):
        to_agent.setdefault(plain_name(call.to_agent), deque()).append(place)
    for span in sorted(spans, key=attrgetter("start_ns")):
        # A span, or a call, that does not say to whom is the same as the first one that may be.
        name = plain_name(span.to_agent)
        may_be = [to_agent.get(name), to_agent.get("")] if name else [every]
        firsts = [first for some in may_be if (first := _first(some, shown)) is not None]
        if not firsts or calls[place := min(firsts)].start_ns > span.start_ns:
            kept.append(span)
            continue
        shown.add(place)
        call = calls[place]
        kept[place] = replace(call, to_agent=call.to_agent or span.to_agent, start_ns=span.start_ns)
    return kept


def _first(places: deque[int] | None, without: Set[int]) -> int | None:
    """The first of `places` that is not in `without`; those before it are dropped."""
    while places and places[0] in without:
        places.popleft()
    return places[0] if places else None


def _of_runs(extraction: Extraction, waiting: "_Waiting") -> Iterator[Handoff]:
    """Those that runs show, and that nothing else tells."""
    runs = {run.span_id: run for run in extraction.runs}
    enclosed = _Enclosing(extraction.calls)
    ended: list[AgentRun] = []  # those without an agent around them
    for run in extraction.runs:
        above = runs.get(run.parent_span_id or "")
        if above is not None:
            before = None if enclosed.by_call(run, above) else above
        else:
            before = max((r for r in ended[-_LOOKED_AT:] if r.end_ns <= run.start_ns), key=_end, default=None)
            ended.append(run)
        if before is None or not (_is_named(before) and _is_named(run)):
            continue
        if plain_name(before.agent) == plain_name(run.agent):
            continue
        if not waiting.taken_by(run, since_ns=before.start_ns):
            yield Handoff(before.agent, run.agent, run.start_ns, run.span_id, "runs", before.span_id)


def _is_named(run: AgentRun) -> bool:
    return plain_name(run.agent) not in _SAME_FOR_ALL


_LOOKED_AT = 64  # runs before one, of which the last that ended passed the task on
_end = attrgetter("end_ns")


class _Waiting:
    """Handoffs that are told of, and that no run was found to follow yet.

    ``taken`` has, by the place of a handoff among them, the agent whose run follows it: some do not say it themselves.
    """

    def __init__(self, told: Sequence[Handoff]) -> None:
        self.taken: dict[int, str] = {}
        self._later = deque(enumerate(told))
        self._begun: dict[str, list[tuple[int, Handoff]]] = {}

    def taken_by(self, run: AgentRun, since_ns: int) -> bool:
        """Whether `run` follows the last one to its agent, or to one that is not named; runs come in order of start."""
        while self._later and self._later[0][1].start_ns <= run.start_ns:
            place, handoff = self._later.popleft()
            self._begun.setdefault(plain_name(handoff.to_agent), []).append((place, handoff))
        for name in (plain_name(run.agent), ""):
            if begun := self._begun.get(name):
                place, handoff = begun.pop()
                if handoff.start_ns >= since_ns:
                    self.taken[place] = run.agent
                    return True
        return False


class _Enclosing:
    """Which runs a tool call of the agent around them encloses."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        by_run: dict[str, list[ToolCall]] = {}
        for call in calls:
            if call.start_ns and passed_on_to(call) is None:
                by_run.setdefault(call.agent_span_id, []).append(call)
        self._starts: dict[str, list[int]] = {}
        self._ends: dict[str, list[int]] = {}
        for run, some in by_run.items():
            some.sort(key=attrgetter("start_ns"))
            self._starts[run] = [call.start_ns for call in some]
            self._ends[run] = list(accumulate((call.end_ns for call in some), max))

    def by_call(self, run: AgentRun, above: AgentRun) -> bool:
        """Whether a call of `above` began no later and ended no earlier than `run`."""
        place = bisect_right(self._starts.get(above.span_id, []), run.start_ns)
        return place > 0 and self._ends[above.span_id][place - 1] >= run.end_ns


def _with_calls_before(handoffs: Sequence[Handoff], calls: Sequence[ToolCall]) -> list[Handoff]:
    """Those that are no calls with the number of calls before; one without a time comes with the one before it."""
    at_ns = 0
    starts = []
    for call in calls:
        at_ns = max(at_ns, call.start_ns)
        if passed_on_to(call) is None:
            starts.append(at_ns)
    return [
        each if each.seen_in == "calls" else replace(each, calls_before=bisect_right(starts, each.start_ns))
        for each in handoffs
    ]
