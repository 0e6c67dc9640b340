"""What a trace says of a subject beside its calls: tool definitions, duration and tokens; worked out when asked."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from tracegrade import semconv as s
from tracegrade.extract.registry import DIALECTS
from tracegrade.extract.unread import UNREAD_KEYS, unread_spans
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import Session
from tracegrade.model.span import Span
from tracegrade.model.subject import Subject
from tracegrade.model.tool_call import ToolCall

_SCHEMA_READERS = tuple(dict.fromkeys(dialect.schemas for dialect in DIALECTS.values()))  # dialects share them

_ANY_TOOL = "*"


class TraceSurroundings:
    """What a trace says, each worked out once for all of its subjects."""

    __slots__ = ("_called", "_definitions", "_extraction", "_places", "_tokens", "_unread")

    def __init__(self, extraction: Extraction) -> None:
        self._extraction = extraction
        self._called: dict[str, list[tuple[int, ToolCall]]] = {}
        self._places: dict[int, int] = {}
        self._unread: dict[str | None, Span] | None = None
        self._definitions: dict[str, JsonValue] | None = None
        self._tokens: dict[str | None, int] | None = None

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """The tools that models were told of, by name: its arguments as JSON Schema, as first told."""
        if self._definitions is None:
            self._definitions = _tool_definitions(self._extraction)
        return self._definitions

    def agents(self) -> Collection[str]:
        """The names of its agents."""
        return {run.agent for run in self._extraction.runs if run.agent}

    def tokens(self, runs: Sequence[AgentRun] | None) -> int | None:
        """The tokens of the model calls of `runs`, of all spans when it is None; None when none were recorded."""
        if self._tokens is None:
            self._tokens = _tokens_by_run(self._extraction)
        of: Iterable[str | None] = self._tokens if runs is None else {run.span_id for run in runs}
        known = [self._tokens[run] for run in of if run in self._tokens]
        return sum(known) if known else None

    def unread_before(self, run: str | None, call: ToolCall | None) -> str | None:
        """As `Surroundings.unread_before`, of a run (hex id), of the whole trace when it is None."""
        if self._unread is None:
            self._unread = _first_unread(self._extraction)
        span = self._unread.get(run)
        if span is None or (call is not None and call.start_ns and span.start_ns > call.start_ns):
            return None
        return span.span_id.hex()

    def agent_that_called(self, run: str, tool: str, before: ToolCall) -> str | None:
        """As `Surroundings.agent_that_called`, where `before` is of that run (hex id)."""
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


class SubjectSurroundings:
    """The surroundings of one subject."""

    __slots__ = ("_subject", "_trace")

    def __init__(self, trace: TraceSurroundings, subject: Subject) -> None:
        self._trace = trace
        self._subject = subject

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """Those of the trace."""
        return self._trace.tool_definitions()

    def agents(self) -> Collection[str]:
        """Those of the trace."""
        return self._trace.agents()

    def duration_ns(self) -> int | None:
        """From the start of the call, run or trace to its end, ns; None without times."""
        subject = self._subject
        if subject.kind == "tool-call":
            times = [(call.start_ns, call.end_ns) for call in subject.calls]
        elif subject.kind == "agent" and subject.run is not None:
            times = [(subject.run.start_ns, subject.run.end_ns)]
        else:
            times = [(span.start_ns, span.end_ns) for span in subject.trace.spans]
        return _lasted_ns(times)

    def tokens(self) -> int | None:
        """The tokens of the subject's model calls, in and out; None when none were recorded.

        Spans around a model call often repeat or add up its tokens, so the innermost spans that have any count. Of an
        agent run count its own spans, not those of its sub-agents.
        """
        subject = self._subject
        if subject.kind == "tool-call":
            return None
        runs = [subject.run] if subject.kind == "agent" and subject.run is not None else None
        return self._trace.tokens(runs)

    def unread_before(self, call: ToolCall | None) -> str | None:
        """The first of the trace, or of the run that is judged or whose call is."""
        subject = self._subject
        run = subject.run.span_id if subject.kind != "trace" and subject.run is not None else None
        return self._trace.unread_before(run, call)

    def agent_that_called(self, tool: str, before: ToolCall) -> str | None:
        """The first in the trace; None where the whole trace is judged."""
        if self._subject.kind == "trace" or self._subject.run is None:
            return None
        return self._trace.agent_that_called(self._subject.run.span_id, tool, before)


class SessionSurroundings:
    """The surroundings of a session: those of its parts together."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """As of a trace; what an earlier trace told stays."""
        found: dict[str, JsonValue] = {}
        for part in self._session.parts:
            found = {**_tool_definitions(part), **found}
        return found

    def agents(self) -> Collection[str]:
        """Those of its parts."""
        return {run.agent for part in self._session.parts for run in part.runs if run.agent}

    def duration_ns(self) -> int | None:
        """From the start of its first run to the end of its last, ns; None without times."""
        return _lasted_ns([(run.start_ns, run.end_ns) for run in self._session.runs])

    def tokens(self) -> int | None:
        """The tokens of its runs' model calls, in and out; None when none were recorded."""
        parts = [TraceSurroundings(part).tokens(part.runs) for part in self._session.parts]
        known = [tokens for tokens in parts if tokens is not None]
        return sum(known) if known else None

    def unread_before(self, call: ToolCall | None) -> str | None:
        """The first of its traces."""
        found = (TraceSurroundings(part).unread_before(None, call) for part in self._session.parts)
        return next((span_id for span_id in found if span_id is not None), None)

    def agent_that_called(self, tool: str, before: ToolCall) -> str | None:
        """None: a session has all calls."""
        return None


def _first_unread(extraction: Extraction) -> dict[str | None, Span]:
    """The first tool span that does not say which tool, by the run (hex id) around it, and of all under None.

    Spans that merely look like tool calls, and that no dialect knows, are none.
    """
    nameless = [span for span in unread_spans(extraction) if UNREAD_KEYS not in span.attributes]
    if not nameless:
        return {}
    parents = {span.span_id: span.parent_span_id for span in extraction.trace.spans}
    run_of: dict[bytes, str | None] = {bytes.fromhex(run.span_id): run.span_id for run in extraction.runs}
    found: dict[str | None, Span] = {}
    for span in nameless:
        for run in (None, _run_of(span.span_id, parents, run_of)):
            found.setdefault(run, span)
    return found


def _tool_definitions(extraction: Extraction) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for span in extraction.trace.spans:
        for read in _SCHEMA_READERS:
            for name, schema in read(span).items():
                found.setdefault(name, schema)
    return found


def _lasted_ns(times: Iterable[tuple[int, int]]) -> int | None:
    known = [(start, end) for start, end in times if start and end >= start]
    return max(end for _, end in known) - min(start for start, _ in known) if known else None


def _tokens_by_run(extraction: Extraction) -> dict[str | None, int]:
    """The tokens of the innermost spans that have any, by the run (hex id) around them; None is that of no run."""
    spans = extraction.trace.spans
    parents = {span.span_id: span.parent_span_id for span in spans}
    used = {span.span_id: tokens for span in spans if (tokens := _tokens_of(span)) is not None}
    around: set[bytes] = set()
    for span_id in used:
        above = parents.get(span_id)
        while above is not None and above not in around:
            around.add(above)
            above = parents.get(above)
    run_of: dict[bytes, str | None] = {bytes.fromhex(run.span_id): run.span_id for run in extraction.runs}
    found: dict[str | None, int] = {}
    for span_id, tokens in used.items():
        if span_id not in around:
            run = _run_of(span_id, parents, run_of)
            found[run] = found.get(run, 0) + tokens
    return found


def _tokens_of(span: Span) -> int | None:
    attributes = span.attributes
    parts = [_first(attributes, keys) for keys in (s.TOKENS_IN, s.TOKENS_OUT)]
    known = [part for part in parts if part is not None]
    return sum(known) if known else _first(attributes, s.TOKENS_TOTAL)


def _first(attributes: Mapping[str, JsonValue], keys: Sequence[str]) -> int | None:
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return int(value)
    return None


def _run_of(span_id: bytes, parents: Mapping[bytes, bytes], run_of: dict[bytes, str | None]) -> str | None:
    """The innermost agent run around a span, or the span itself; afterwards `run_of` has it for all on the way."""
    way: dict[bytes, None] = {}  # parents may go round in a circle
    at: bytes | None = span_id
    while at is not None and at not in run_of and at not in way:
        way[at] = None
        at = parents.get(at)
    run = None if at is None else run_of.get(at)
    run_of.update(dict.fromkeys(way, run))
    return run
