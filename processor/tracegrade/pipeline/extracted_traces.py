"""Remembers the extraction of session traces, so that each turn is judged without extracting earlier turns again."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from tracegrade.assemble.closed_traces import ClosedTrace, ClosedTraces
from tracegrade.extract.extract import extract
from tracegrade.extract.session import part_of, session_ids
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import SessionPart
from tracegrade.model.trace import TraceKey


@dataclass(frozen=True, slots=True)
class ExtractedTrace:
    """The parts of one closed trace, in one revision, that its sessions need; they do not need its spans.

    ``parts`` are its parts of sessions, by session id, in order of their first runs. ``began`` is the
    receive time (ns) and the journal position of its first span, ``rule_set`` the hash of the one in force then.
    """

    revision: int
    parts: dict[str, SessionPart]
    began: tuple[int, int]
    rule_set: str
    ends_session: bool
    span_count: int

    @classmethod
    def of(cls, extraction: Extraction, session_end_attribute: str | None = None) -> "ExtractedTrace":
        """What its sessions need of an extraction; a span with that attribute set to true ends its session."""
        trace, ends = extraction.trace, session_end_attribute
        return cls(
            trace.revision,
            {name: part for name in session_ids(extraction) if (part := part_of(extraction, name)) is not None},
            (trace.first_received_ns, trace.first_position),
            trace.rule_set,
            ends is not None and any(span.attributes.get(ends) is True for span in trace.spans),
            len(trace.spans) or 1,  # a deleted trace counts too
        )


class ExtractedTraces:
    """Extracted traces by (tenant, trace id), up to a bound; others are extracted again when needed.

    When a trace closes again, `add` or `forget` it, so that the highest revision is remembered. A restart begins empty:
    a session that goes on is then extracted once from the closed traces; after that, each turn costs only the
    extraction of its own trace.
    """

    def __init__(
        self,
        closed: ClosedTraces,
        tool_name: Callable[[str], str] | None,
        session_end_attribute: str | None,
        max_spans: int,
    ) -> None:
        """Start empty.

        Args:
            closed: where the spans of traces are found.
            tool_name: as of `extract`.
            session_end_attribute: a span with this attribute set to true ends its session.
            max_spans: the largest sum of spans of remembered traces; beyond it, the least recently used are removed.
        """
        self._closed = closed
        self._tool_name = tool_name
        self._session_end_attribute = session_end_attribute
        self._max_spans = max_spans
        self._spans = 0
        self._remembered: OrderedDict[TraceKey, ExtractedTrace] = OrderedDict()

    def add(self, key: TraceKey, extraction: Extraction) -> ExtractedTrace:
        """Remember the extraction of a trace that closed, in place of that of a lower revision."""
        extracted = ExtractedTrace.of(extraction, self._session_end_attribute)
        self.forget(key)
        self._remembered[key] = extracted
        self._spans += extracted.span_count
        while self._spans > self._max_spans:
            self.forget(next(iter(self._remembered)))
        return extracted

    def of(self, key: TraceKey, closed: ClosedTrace) -> ExtractedTrace:
        """The extraction of `closed`, made again if it is not remembered."""
        return self._remembered.get(key) or self.add(key, extract(closed.trace(key), self._tool_name))

    def find(self, keys: Collection[TraceKey]) -> dict[TraceKey, ExtractedTrace]:
        """The extractions of those traces that closed and are still known, in their order."""
        found = {key: self._remembered[key] for key in keys if key in self._remembered}
        for key in found:
            self._remembered.move_to_end(key)
        closed = self._closed.find(key for key in keys if key not in found)
        found.update({key: self.of(key, trace) for key, trace in closed.items()})
        return {key: found[key] for key in keys if key in found}

    def forget(self, key: TraceKey) -> None:
        """Forget a trace."""
        forgotten = self._remembered.pop(key, None)
        if forgotten is not None:
            self._spans -= forgotten.span_count

    def forget_first(self, keys: Iterable[TraceKey]) -> None:
        """Forget these before others, as their session has ended; if it goes on, they are still useful."""
        for key in keys:
            if key in self._remembered:
                self._remembered.move_to_end(key, last=False)
