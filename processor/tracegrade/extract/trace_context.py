"""Trace context: what a trace says of a subject beside its calls, such as tool definitions, duration, tokens and cost.

Each answer is computed when it is first asked for.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from tracegrade.extract.dialect_set import DialectSet
from tracegrade.extract.handoffs import handoffs_in
from tracegrade.extract.registry import read_safely
from tracegrade.extract.token_usage import ModelCall, model_calls, run_around, usage_of
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction, UnreadWork
from tracegrade.model.handoff import Handoff, passed_on_to
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import Session
from tracegrade.model.span import Span
from tracegrade.model.subject import Subject
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.usage import Cost, CostOf, Usage, no_prices

_ANY_TOOL = "*"


class ExtractionContext:
    """What one trace says; each answer is computed once and serves all subjects of the trace."""

    __slots__ = (
        *("_called", "_cost_of", "_definitions", "_extraction", "_handoffs", "_model_calls", "_places", "_unread"),
        "_usages",
    )

    def __init__(self, extraction: Extraction, cost_of: CostOf = no_prices) -> None:
        """What `extraction` says; `cost_of` says what model calls cost."""
        self._extraction = extraction
        self._cost_of = cost_of
        self._called: dict[str, list[tuple[int, ToolCall]]] = {}
        self._places: dict[int, int] = {}
        self._unread: dict[str | None, UnreadWork] | None = None
        self._definitions: dict[str, JsonValue] | None = None
        self._handoffs: list[Handoff] | None = None
        self._model_calls: dict[str | None, list[ModelCall]] | None = None
        self._usages: dict[str | None, list[Usage]] = {}

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """The tools declared to models, by name: the first JSON Schema of their arguments."""
        if self._definitions is None:
            spans = self._extraction.trace.spans
            self._definitions = read_safely(lambda dialects: _tool_definitions(spans, dialects))
        return self._definitions

    def agents(self) -> Collection[str]:
        """The names of its agents."""
        return {run.agent for run in self._extraction.runs if run.agent}

    def handoffs(self, runs: Collection[str] | None) -> Sequence[Handoff]:
        """As `TraceContext.handoffs`, of some runs (hex ids), of the whole trace when it is None."""
        if (found := self._handoffs) is None:
            found = self._handoffs = read_safely(
                lambda dialects: handoffs_in(self._extraction, dialects.handoff_readers)
            )
        return found if runs is None else [each for each in found if each.agent_span_id in runs]

    def duration_ns(self) -> int | None:
        """From the start of its first span to the end of its last, ns; None without times."""
        return _lasted_ns([(span.start_ns, span.end_ns) for span in self._extraction.trace.spans])

    def tokens(self, runs: Sequence[AgentRun] | None) -> int | None:
        """The tokens of the model calls of `runs`, of all spans when it is None; None when none were recorded."""
        known = [tokens.total for run in self._of(runs) for _, tokens in self._calls().get(run, ())]
        return sum(known) if known else None

    def usages(self, runs: Sequence[AgentRun] | None) -> list[Usage]:
        """What each model call of `runs` used, of all spans when it is None."""
        found = []
        for run in self._of(runs):
            if run not in self._usages:
                self._usages[run] = [usage_of(call) for call in self._calls().get(run, ())]
            found += self._usages[run]
        return found

    def cost(self, runs: Sequence[AgentRun] | None) -> Cost:
        """What the model calls of `runs` cost, of all spans when it is None."""
        return self._cost_of(self.usages(runs))

    def _calls(self) -> dict[str | None, list[ModelCall]]:
        if self._model_calls is None:
            self._model_calls = model_calls(self._extraction)
        return self._model_calls

    def _of(self, runs: Sequence[AgentRun] | None) -> Iterable[str | None]:
        return self._calls() if runs is None else dict.fromkeys(run.span_id for run in runs)

    @property
    def has_unread(self) -> bool:
        """Whether there is work that could not be read."""
        return bool(self._extraction.unread)

    def unread_before(self, runs: Collection[str] | None, call: ToolCall | None) -> UnreadWork | None:
        """As `TraceContext.unread_before`, of some runs (hex ids), of the whole trace when it is None."""
        return _before(call, self.first_unread(runs))

    def first_unread(self, runs: Collection[str] | None) -> UnreadWork | None:
        """The first work of some runs (hex ids), of the whole trace when it is None, that could not be read."""
        if (unread := self._unread) is None:
            unread = self._unread = _first_unread(self._extraction)
        if runs is None or not unread:
            return unread.get(None)
        return min((unread[run] for run in runs if run in unread), key=attrgetter("start_ns"), default=None)

    def agent_that_called(self, run: str, tool: str, before: ToolCall) -> str | None:
        """As `TraceContext.agent_that_called`, where `before` is of that run (hex id)."""
        if not self._places:
            for place, call in enumerate(self._extraction.calls):
                self._places[id(call)] = place
                for name in (call.name, _ANY_TOOL):
                    first = self._called.setdefault(name, [])
                    # The first calls of two runs: one of them is not the run that asks.
                    if not first or (len(first) == 1 and first[0][1].agent_span_id != call.agent_span_id):
                        first.append((place, call))
        last = self._places.get(id(before), len(self._places))
        for place, call in self._called.get(tool, ()):
            if place < last and call.agent_span_id != run:
                return call.agent
        return None


class SubjectContext:
    """What a trace says of one subject."""

    __slots__ = ("_subject", "_trace")

    def __init__(self, trace: ExtractionContext, subject: Subject) -> None:
        self._trace = trace
        self._subject = subject

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """Those of the trace."""
        return self._trace.tool_definitions()

    def agents(self) -> Collection[str]:
        """Those of the trace."""
        return self._trace.agents()

    def handoffs(self) -> Sequence[Handoff]:
        """Those of the trace, or those by which the runs that are judged passed their tasks on."""
        return self._trace.handoffs(self._judged_runs)

    def duration_ns(self) -> int | None:
        """From the start of the call, run or trace to its end, ns; None without times."""
        subject = self._subject
        if subject.kind == "tool-call":
            times = [(call.start_ns, call.end_ns) for call in subject.calls]
        elif subject.kind == "agent" and subject.run is not None:
            times = [(subject.run.start_ns, subject.run.end_ns)]
        else:
            return self._trace.duration_ns()
        return _lasted_ns(times)

    def tokens(self) -> int | None:
        """The tokens of the subject's model calls, in and out; None when none were recorded.

        Spans around a model call often repeat or add up its tokens, so the innermost spans that have any count. Of an
        agent run count its own spans, not those of its sub-agents.
        """
        return None if self._subject.kind == "tool-call" else self._trace.tokens(self._runs)

    def cost(self) -> Cost:
        """What those model calls cost whose tokens count."""
        if self._subject.kind == "tool-call":
            return Cost(None, "a tool call has no model calls")
        return self._trace.cost(self._runs)

    @property
    def _runs(self) -> list[AgentRun] | None:
        subject = self._subject
        return [subject.run] if subject.kind == "agent" and subject.run is not None else None

    @property
    def _judged_runs(self) -> Collection[str] | None:
        """The runs (hex ids) that are judged, or whose call is; None: the whole trace."""
        subject = self._subject
        return None if subject.kind == "trace" or subject.run is None else {subject.run.span_id, *subject.sub_runs}

    def unread_before(self, call: ToolCall | None) -> UnreadWork | None:
        """The first of the trace, or of the runs that are judged or whose call is."""
        return self._trace.unread_before(self._judged_runs, call) if self._trace.has_unread else None

    def agent_that_called(self, tool: str, before: ToolCall) -> str | None:
        """The first in the trace; None where the whole trace is judged."""
        if self._subject.kind == "trace" or self._subject.run is None:
            return None
        return self._trace.agent_that_called(self._subject.run.span_id, tool, before)


class SessionContext:
    """What the traces of a session say of it, taken together."""

    __slots__ = ("_cost_of", "_session")

    def __init__(self, session: Session, cost_of: CostOf = no_prices) -> None:
        self._session = session
        self._cost_of = cost_of

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """As for a trace; definitions of earlier traces stay."""
        found: dict[str, JsonValue] = {}
        for part in self._session.parts:
            found = {**part.tool_definitions, **found}
        return found

    def agents(self) -> Collection[str]:
        """Those of its parts."""
        return {run.agent for part in self._session.parts for run in part.runs if run.agent}

    def handoffs(self) -> Sequence[Handoff]:
        """Those of its parts, one after the other."""
        found: list[Handoff] = []
        calls = 0
        for part in self._session.parts:
            found += [replace(each, calls_before=each.calls_before + calls) for each in part.handoffs]
            calls += sum(passed_on_to(call) is None for call in part.calls)
        return found

    def duration_ns(self) -> int | None:
        """From the start of its first run to the end of its last, ns; None without times."""
        return _lasted_ns([(run.start_ns, run.end_ns) for run in self._session.runs])

    def tokens(self) -> int | None:
        """The tokens of its runs' model calls, in and out; None when none were recorded."""
        known = [tokens.total for part in self._session.parts for _, tokens in part.usages]
        return sum(known) if known else None

    def cost(self) -> Cost:
        """What its runs' model calls cost."""
        return self._cost_of([usage for part in self._session.parts for usage in part.usages])

    def unread_before(self, call: ToolCall | None) -> UnreadWork | None:
        """The first of its traces."""
        found = (_before(call, part.unread) for part in self._session.parts)
        return next((work for work in found if work is not None), None)

    def agent_that_called(self, tool: str, before: ToolCall) -> str | None:
        """None: a session has all calls."""
        return None


def _before(call: ToolCall | None, unread: UnreadWork | None) -> UnreadWork | None:
    if unread is None or (call is not None and call.start_ns and unread.start_ns > call.start_ns):
        return None
    return unread


def _first_unread(extraction: Extraction) -> dict[str | None, UnreadWork]:
    """The first work that could not be read, by the run (hex id) around it, and of all under None."""
    if not extraction.unread:
        return {}
    parents = {span.span_id: span.parent_span_id for span in extraction.trace.spans}
    run_of: dict[bytes, str | None] = {bytes.fromhex(run.span_id): run.span_id for run in extraction.runs}
    found: dict[str | None, UnreadWork] = {}
    for work in extraction.unread:
        for run in (None, run_around(bytes.fromhex(work.span_id), parents, run_of)):
            found.setdefault(run, work)
    return found


def _tool_definitions(spans: Iterable[Span], dialects: DialectSet) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for span in spans:
        # Nearly all spans hold none, which their keys tell; of those with events some have them there.
        for read in dialects.schema_readers if span.events else dialects.forms[tuple(span.attributes)].schemas:
            for name, schema in read(span).items():
                found.setdefault(name, schema)
    return found


def _lasted_ns(times: Iterable[tuple[int, int]]) -> int | None:
    known = [(start, end) for start, end in times if start and end >= start]
    return max(end for _, end in known) - min(start for start, _ in known) if known else None
