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


class SubjectSurroundings:
    """The surroundings of one subject."""

    __slots__ = ("_extraction", "_subject")

    def __init__(self, extraction: Extraction, subject: Subject) -> None:
        self._extraction = extraction
        self._subject = subject

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """The tools that models were told of in this trace, by name: its arguments as JSON Schema, as first told."""
        return _tool_definitions(self._extraction)

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
        return _tokens(self._extraction, runs)


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
        known = [tokens for part in self._session.parts if (tokens := _tokens(part, part.runs)) is not None]
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


def _tokens(extraction: Extraction, runs: Sequence[AgentRun] | None) -> int | None:
    """The tokens of the innermost spans that have any; of `runs` alone unless that is None."""
    spans = extraction.trace.spans
    used = {span.span_id: tokens for span in spans if (tokens := _tokens_of(span)) is not None}
    parents = {span.span_id: span.parent_span_id for span in spans}
    around: set[bytes] = set()
    for span_id in used:
        around.update(_ancestors(span_id, parents))
    innermost = [span_id for span_id in used if span_id not in around]
    if runs is not None:
        every = {bytes.fromhex(run.span_id) for run in extraction.runs}
        own = {bytes.fromhex(run.span_id) for run in runs}
        innermost = [span_id for span_id in innermost if _run_of(span_id, parents, every) in own]
    return sum(used[span_id] for span_id in innermost) if innermost else None


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


def _ancestors(span_id: bytes, parents: Mapping[bytes, bytes]) -> list[bytes]:
    """The spans around, from the inside; each once, also where parents go round in a circle."""
    found: dict[bytes, None] = {}
    above = parents.get(span_id)
    while above is not None and above not in found:
        found[above] = None
        above = parents.get(above)
    return list(found)


def _run_of(span_id: bytes, parents: Mapping[bytes, bytes], runs: set[bytes]) -> bytes | None:
    """The innermost agent run around a span, or the span itself."""
    return next((around for around in (span_id, *_ancestors(span_id, parents)) if around in runs), None)
