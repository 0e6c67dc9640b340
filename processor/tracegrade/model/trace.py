"""A trace as it stands when it is judged."""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, TypeAlias

from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span

SPAN_ORDER = attrgetter("start_ns", "end_ns", "span_id")

TraceKey = tuple[str, bytes]  # tenant, trace id

CloseReason: TypeAlias = Literal[
    "settled", "idle", "end_attribute", "max_age", "span_cap", "byte_cap", "memory", "end_of_input", "turn", "quiet"
]
"""Why a trace or a session was closed; the last two are of sessions alone."""

CLOSE_REASONS: dict[CloseReason, str] = {
    "settled": "its root span had ended, no parent span was missing, and no span came for traces.settle",
    "idle": "no span came for traces.idle_timeout",
    "end_attribute": "a span had the attribute that ends a trace or session",
    "max_age": "it had been open for traces.max_age",
    "span_cap": "it reached the limit traces.max_spans_per_trace",
    "byte_cap": "it reached the limit traces.max_mib_per_trace",
    "memory": "memory ran short: too many traces, spans or sessions were open",
    "end_of_input": "the input ended",
    "turn": "one of its traces closed; the session is still in progress",
    "quiet": "no trace came for traces.session_quiet",
}
"""Each close reason in words."""


def close_reason_text(reason: str) -> str:
    """A stored close reason in words; "" for one of another version."""
    return next((text for known, text in CLOSE_REASONS.items() if known == reason), "")


@dataclass(slots=True)
class Trace:
    """The distinct spans and log records of one trace id, and what is known of its completeness.

    ``spans``, one per span id, are sorted here by (start_ns, end_ns, span_id); ``log_records`` in the order in which
    they were written, whether or not their span is here. ``revision`` is the number of distinct contents seen, replaced
    ones included. ``close_reason`` is one of `CLOSE_REASONS`; ``missing`` names what an incomplete
    trace lacks: ``root``, or ``parent:`` and the hex id of a span that others name as their parent.
    ``first_position`` and ``last_position`` are journal positions (0 without a journal); ``first_received_ns`` and
    ``last_received_ns`` are receive times, ns since 1970 UTC.
    """

    trace_id: bytes
    tenant: str
    spans: list[Span]
    close_reason: str
    missing: list[str]
    revision: int
    first_received_ns: int = 0
    last_received_ns: int = 0
    first_position: int = 0
    last_position: int = 0
    cut_by: str | None = None  # the bound that cut this trace short, if one did: promise 2 does not hold for it
    replaced: list[bytes] = field(default_factory=list)  # digests of the contents that lost to another of the same id
    supersedes: int | None = None  # the revision that was judged before this one, if any
    rule_set: str = ""  # hash of the rule set in force when the first span was read
    filter_hash: str = ""  # hash of the attribute filter of its spans; "" when that changed while it was open
    closed_ns: int = 0  # the records' time at which it closed
    log_records: list[LogRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spans = sorted(self.spans, key=SPAN_ORDER)

    @property
    def complete(self) -> bool:
        """Nothing is known to be missing."""
        return not self.missing

    @property
    def start_ns(self) -> int:
        """When its first span started."""
        return self.spans[0].start_ns

    @property
    def end_ns(self) -> int:
        """When its last span ended."""
        return max(span.end_ns for span in self.spans)

    @property
    def span_count(self) -> int:
        """The number of its distinct spans."""
        return len(self.spans)

    @property
    def root(self) -> Span | None:
        """The earliest local root, if one has come."""
        for span in self.spans:  # nearly always the first: a loop ends sooner than a generator begins
            if span.is_local_root:
                return span
        return None

    @property
    def resource(self) -> Resource:
        """The root's resource, else the earliest span's."""
        return (self.root or self.spans[0]).resource

    def outline(self) -> "TraceOutline":
        """What is read of it where its spans are no longer needed; it has at least one."""
        return TraceOutline(
            self.trace_id,
            self.start_ns,
            self.end_ns,
            self.span_count,
            self.complete,
            self.spans[0].span_id,
            self.root,
            self.resource,
            self.first_received_ns,
        )


@dataclass(frozen=True, slots=True)
class TraceOutline:
    """A trace without its spans, except for its root: each field as the attribute of `Trace` that has its name.

    ``first_span_id`` is the id of the span that started first.
    """

    trace_id: bytes
    start_ns: int
    end_ns: int
    span_count: int
    complete: bool
    first_span_id: bytes
    root: Span | None
    resource: Resource
    first_received_ns: int
