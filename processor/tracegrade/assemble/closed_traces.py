"""Traces that were closed and judged: a late span finds its trace again here.

Recently closed ones are held in memory, until a store is known to hold them (live) or until they can no longer be
reopened (replay, which has no store); beyond a number of spans the oldest of them as bytes. Older ones are looked up in
the store, many ids in one query; in replay only when they closed is remembered, so that a span which comes too late
opens no trace of its own there either.
"""

from collections import OrderedDict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from tracegrade.codec.kept_spans import decode_spans, encode_spans
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span
from tracegrade.model.trace import Trace

TraceKey = tuple[str, bytes]  # tenant, trace id

DELETED = "deleted"
"""Stands in `ClosedTrace.cut_by` of a trace that somebody had deleted: nothing of it is taken in again."""
SET_ASIDE = "set_aside"
"""Stands there for one that ended the judge: nothing of it is taken in."""


@dataclass(slots=True)
class ClosedTrace:
    """What is needed to judge a closed trace again: its distinct spans and log records, how it was judged."""

    closed_ns: int
    revision: int
    spans: list[Span]
    replaced: list[bytes]
    cut_by: str | None
    rule_set: str
    first_received_ns: int
    first_position: int
    log_records: list[LogRecord] = field(default_factory=list)
    filter_hash: str = ""  # hash of the attribute filter of its spans
    in_session: bool = False  # a session may go on for longer than the trace can be opened again
    packed: bytes = b""  # all spans, digests and log records, which are then held nowhere else

    @classmethod
    def of(cls, trace: Trace) -> "ClosedTrace":
        """The closed form of a trace that was just judged."""
        return cls(
            trace.closed_ns,
            trace.revision,
            trace.spans,
            trace.replaced,
            trace.cut_by,
            trace.rule_set,
            trace.first_received_ns,
            trace.first_position,
            trace.log_records,
            trace.filter_hash,
        )

    def as_bytes(self) -> "ClosedTrace":
        """It with its spans packed: itself, if they are."""
        if self.packed:
            return self
        packed = encode_spans(self.spans, self.replaced, self.log_records, self.filter_hash)
        return replace(self, spans=[], replaced=[], log_records=[], packed=packed)

    def unpacked(self) -> "ClosedTrace":
        """It with its spans as they were: itself, if they are."""
        if not self.packed:
            return self
        kept = decode_spans(self.packed)
        return replace(self, spans=kept.spans, replaced=kept.replaced, log_records=kept.log_records, packed=b"")

    def trace(self, key: TraceKey) -> Trace:
        """The trace as it was when it closed, but for why and when."""
        tenant, trace_id = key
        return Trace(
            trace_id=trace_id,
            tenant=tenant,
            spans=self.spans,
            close_reason="",
            missing=missing_in(self.spans),
            revision=self.revision,
            first_received_ns=self.first_received_ns,
            first_position=self.first_position,
            cut_by=self.cut_by,
            replaced=self.replaced,
            rule_set=self.rule_set,
            closed_ns=self.closed_ns,
            log_records=self.log_records,
        )


def missing_in(spans: Collection[Span]) -> list[str]:
    """What a trace of these spans lacks, as `Trace.missing` names it."""
    known = {span.span_id for span in spans}
    others = [span for span in spans if not span.is_local_root]
    missing = {span.parent_span_id for span in others}.difference(known)
    return [*(["root"] if len(others) == len(known) else []), *(f"parent:{parent.hex()}" for parent in sorted(missing))]


class ClosedTraceLookup(Protocol):
    """Finds closed traces that are not in memory: live in a store, in replay among those that were set apart."""

    def __call__(self, keys: Iterable[TraceKey], /) -> Mapping[TraceKey, ClosedTrace]:
        """Those of `keys` that are known."""


def nothing_stored(keys: Iterable[TraceKey]) -> Mapping[TraceKey, ClosedTrace]:
    """The look-up of a run without a store."""
    return {}


class ClosedTraces:
    """Closed traces by (tenant, trace id), the memory in front of the store."""

    def __init__(
        self,
        lookup: ClosedTraceLookup = nothing_stored,
        max_held: int = 200_000,
        deleted: Container[bytes] = (),
        set_aside: Container[bytes] = (),
        max_unpacked_spans: int = 100_000,
    ) -> None:
        """With nothing closed yet.

        Args:
            lookup: finds what is held here no longer.
            max_held: so many traces are held at most.
            deleted: ids of traces of which nothing is to be judged; not asked while it is empty. Of which something
                came all the same is put into ``came_deleted``.
            set_aside: ids of traces of which nothing is to be judged either; not asked while it is empty.
            max_unpacked_spans: beyond so many spans, the traces that closed first are held as bytes.
        """
        self.came_deleted: set[bytes] = set()
        self._deleted = deleted or None
        self._set_aside = set_aside or None
        self._lookup = lookup
        self._max_held = max_held
        self._held: OrderedDict[TraceKey, tuple[int, ClosedTrace]] = OrderedDict()
        self._expired: dict[TraceKey, int] = {}  # when it closed
        self._max_unpacked_spans = max_unpacked_spans
        self._unpacked: OrderedDict[TraceKey, int] = OrderedDict()  # spans of those of `_held` that are no bytes yet
        self.unpacked_spans = 0
        self.forgotten = 0  # closed traces let go because of `max_held`, which no store holds

    def add(self, key: TraceKey, closed: ClosedTrace, token: int = 0) -> None:
        """Hold `closed`; `token` (growing) is what `release` will name once a store holds it."""
        self._let_go(key)
        self._expired.pop(key, None)
        self._held[key] = (token, closed)
        if len(self._held) > self._max_held:
            self._let_go(next(iter(self._held)))
            self.forgotten += 1
        self._unpacked[key] = len(closed.spans)
        self.unpacked_spans += len(closed.spans)
        while self.unpacked_spans > self._max_unpacked_spans:
            first, spans = self._unpacked.popitem(last=False)
            self.unpacked_spans -= spans
            first_token, first_closed = self._held[first]
            self._held[first] = first_token, first_closed.as_bytes()

    def _let_go(self, key: TraceKey) -> None:
        self._held.pop(key, None)
        self.unpacked_spans -= self._unpacked.pop(key, 0)

    def release(self, up_to_token: int) -> None:
        """Let go of everything added with a token of at most `up_to_token`: a store holds it now."""
        while self._held:
            key, (token, _) = next(iter(self._held.items()))
            if token > up_to_token:
                return
            self._let_go(key)

    def expire(self, before_ns: int) -> list[tuple[TraceKey, ClosedTrace]]:
        """Remember only when it closed of what closed before `before_ns`, for runs without a store.

        Returns:
            The traces of sessions, which may go on: the look-up must find them from now on.
        """
        in_sessions = []
        while self._held:
            key, (_, closed) = next(iter(self._held.items()))
            if closed.closed_ns >= before_ns:
                break
            self._let_go(key)
            if closed.in_session:
                in_sessions.append((key, closed))
            else:
                self._expired[key] = closed.closed_ns
        return in_sessions

    def find(self, keys: Iterable[TraceKey]) -> dict[TraceKey, ClosedTrace]:
        """Those of `keys` that were closed before."""
        found: dict[TraceKey, ClosedTrace] = {}
        unknown: list[TraceKey] = []
        for key in keys:
            held = self._held.get(key)
            if self._deleted is not None and key[1] in self._deleted:
                found[key] = ClosedTrace(0, 0, [], [], DELETED, "", 0, 0)
                self.came_deleted.add(key[1])
            elif self._set_aside is not None and key[1] in self._set_aside:
                found[key] = ClosedTrace(0, 0, [], [], SET_ASIDE, "", 0, 0)
            elif held is not None:
                found[key] = held[1].unpacked()
            elif (closed_ns := self._expired.get(key)) is not None:
                found[key] = ClosedTrace(closed_ns, 0, [], [], None, "", 0, 0)
            else:
                unknown.append(key)
        if unknown:
            found.update(self._lookup(unknown))
        return found
