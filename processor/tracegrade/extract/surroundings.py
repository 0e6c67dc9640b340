"""What a trace says of a subject beside its calls: tool definitions, duration and tokens; worked out when asked."""

from collections.abc import Iterable, Mapping, Sequence

from tracegrade import semconv as s
from tracegrade.extract.registry import DIALECTS
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import Session
from tracegrade.model.span import Span
from tracegrade.model.subject import Subject

_SCHEMA_READERS = tuple(dict.fromkeys(dialect.schemas for dialect in DIALECTS.values()))  # dialects share them


class TraceSurroundings:
    """What a trace says, each worked out once for all of its subjects."""

    __slots__ = ("_definitions", "_extraction", "_tokens")

    def __init__(self, extraction: Extraction) -> None:
        self._extraction = extraction
        self._definitions: dict[str, JsonValue] | None = None
        self._tokens: dict[str | None, int] | None = None

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """The tools that models were told of, by name: its arguments as JSON Schema, as first told."""
        if self._definitions is None:
            self._definitions = _tool_definitions(self._extraction)
        return self._definitions

    def tokens(self, runs: Sequence[AgentRun] | None) -> int | None:
        """The tokens of the model calls of `runs`, of all spans when it is None; None when none were recorded."""
        if self._tokens is None:
            self._tokens = _tokens_by_run(self._extraction)
        of: Iterable[str | None] = self._tokens if runs is None else {run.span_id for run in runs}
        known = [self._tokens[run] for run in of if run in self._tokens]
        return sum(known) if known else None


class SubjectSurroundings:
    """The surroundings of one subject."""

    __slots__ = ("_subject", "_trace")

    def __init__(self, trace: TraceSurroundings, subject: Subject) -> None:
        self._trace = trace
        self._subject = subject

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """Those of the trace."""
        return self._trace.tool_definitions()

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

    def duration_ns(self) -> int | None:
        """From the start of its first run to the end of its last, ns; None without times."""
        return _lasted_ns([(run.start_ns, run.end_ns) for run in self._session.runs])

    def tokens(self) -> int | None:
        """The tokens of its runs' model calls, in and out; None when none were recorded."""
        parts = [TraceSurroundings(part).tokens(part.runs) for part in self._session.parts]
        known = [tokens for tokens in parts if tokens is not None]
        return sum(known) if known else None


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
