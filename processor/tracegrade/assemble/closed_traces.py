"""Traces that were closed and judged: a late span finds its trace again here.

Recently closed traces are held in memory until a store is known to hold them (live), or until they can no longer be
reopened (replay, which has no store). Beyond a number of spans, the oldest are held as bytes. Older traces are looked
up in the store, many ids in one query. In replay only their closing times are remembered, so that a span that comes too
late opens no new trace there either.
"""

import sys
from collections import OrderedDict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from tracegrade.codec.kept_spans import decode_spans, encode_spans
from tracegrade.codec.raw_spans import plain
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span
from tracegrade.model.tenant_mark import is_marked
from tracegrade.model.trace import Trace, TraceKey

if TYPE_CHECKING:
    from tracegrade.assemble.sessions import LookupSession

DELETED = "deleted"
"""The value of `ClosedTrace.cut_by` for a deleted trace: nothing of it is taken in again."""
SET_ASIDE = "set_aside"
"""Stands there for one that ended the judge: nothing of it is taken in."""

_ALWAYS = sys.maxsize


@dataclass(slots=True)
class ClosedTrace:
    """A closed trace as it is needed to judge it again: its distinct spans and log records, and how it was judged."""

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
    in_session: bool = False  # a session may last longer than the time in which the trace can be reopened
    packed: bytes = b""  # all spans, digests and log records; their lists are empty then

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
        """The same with its spans packed; itself if they already are."""
        if self.packed:
            return self
        packed = encode_spans(self.spans, self.replaced, self.log_records, self.filter_hash)
        return replace(self, spans=[], replaced=[], log_records=[], packed=packed)

    def unpacked(self) -> "ClosedTrace":
        """The same with its spans unpacked; itself if they already are."""
        if not self.packed:
            return self
        kept = decode_spans(self.packed, as_they_came=True)
        return replace(self, spans=kept.spans, replaced=kept.replaced, log_records=kept.log_records, packed=b"")

    def trace(self, key: TraceKey) -> Trace:
        """The trace as it was when it closed, without close reason and closing time."""
        tenant, trace_id = key
        return Trace(
            trace_id=trace_id,
            tenant=tenant,
            spans=[plain(span) for span in self.spans],
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
    """The missing parts of a trace of these spans, as `Trace.missing` names them."""
    known = {span.span_id for span in spans}
    others = [span for span in spans if not span.is_local_root]
    missing = {span.parent_span_id for span in others}.difference(known)
    return [*(["root"] if len(others) == len(known) else []), *(f"parent:{parent.hex()}" for parent in sorted(missing))]


class ClosedTraceLookup(Protocol):
    """Finds closed traces that are not in memory: in a store when live, among the kept ones in replay."""

    def __call__(self, keys: Iterable[TraceKey], /) -> Mapping[TraceKey, ClosedTrace]:
        """The traces of those `keys` that are known."""


def nothing_stored(keys: Iterable[TraceKey]) -> Mapping[TraceKey, ClosedTrace]:
    """The lookup of a run without a store."""
    return {}


class ClosedTraces:
    """Closed traces by (tenant, trace id): a cache in front of the store."""

    def __init__(
        self,
        lookup: ClosedTraceLookup = nothing_stored,
        max_held: int = 200_000,
        deleted: Container[bytes] = (),
        set_aside: Container[bytes] = (),
        max_unpacked_spans: int = 100_000,
        lookup_session: "LookupSession | None" = None,
    ) -> None:
        """Start with no closed trace.

        Args:
            lookup: finds traces that are no longer held here.
            max_held: the largest number of traces held.
            deleted: ids, or `tenant_mark`s, of traces that were deleted and are not judged again; not asked while it is
                empty. Traces of
                which something came later are put into ``came_deleted``.
            set_aside: ids of traces that are not judged because they are set aside; not asked while it is empty.
            max_unpacked_spans: beyond this number of spans, the traces that closed first are held as bytes.
            lookup_session: finds a session of which only a store knows; None: there is no store.
        """
        self.lookup_session = lookup_session
        self.came_deleted: set[TraceKey] = set()
        self._deleted = deleted or None
        self._set_aside = set_aside or None
        self._lookup = lookup
        self._max_held = max_held
        self._held: OrderedDict[TraceKey, tuple[int, ClosedTrace]] = OrderedDict()
        self._expired: dict[TraceKey, int] = {}  # closing times, ns
        self._asked: dict[TraceKey, ClosedTrace | None] = {}  # what the lookup said last of many
        self._max_unpacked_spans = max_unpacked_spans
        self._unpacked: OrderedDict[TraceKey, int] = OrderedDict()  # numbers of spans of those not packed
        self.unpacked_spans = 0
        self.forgotten = 0  # closed traces that were let go because of `max_held` and are in no store

    def add(self, key: TraceKey, closed: ClosedTrace, token: int = 0) -> None:
        """Hold `closed` until `release` is called with this `token` (growing) or a higher one."""
        self._let_go(key)
        self._expired.pop(key, None)
        self._asked.pop(key, None)
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

    def hold(self, key: TraceKey, token: int = _ALWAYS) -> None:
        """Hold one that was added until `token` is released, or until this is called again."""
        if key in self._held:
            self._held[key] = (token, self._held[key][1])
            self._held.move_to_end(key)

    def _let_go(self, key: TraceKey) -> None:
        self._held.pop(key, None)
        self.unpacked_spans -= self._unpacked.pop(key, 0)

    def release(self, up_to_token: int) -> None:
        """Let go of everything added with a token up to `up_to_token`: a store holds it now."""
        while self._held:
            key, (token, _) = next(iter(self._held.items()))
            if token > up_to_token:
                return
            self._let_go(key)

    def expire(self, before_ns: int) -> list[tuple[TraceKey, ClosedTrace]]:
        """Keep only the closing times of traces that closed before `before_ns`, for runs without a store.

        Returns:
            The traces of sessions, which may go on: the lookup must find these from now on.
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

    def ask(self, keys: Iterable[TraceKey]) -> None:
        """Ask the lookup for all of `keys` at once, where `find` is about to be called for each; once for each.

        What was asked for before is forgotten.
        """
        unknown = [key for key in keys if key not in self._held and key not in self._expired]
        known = self._lookup(unknown) if unknown else {}
        self._asked = {key: known.get(key) for key in unknown}

    def find(self, keys: Iterable[TraceKey]) -> dict[TraceKey, ClosedTrace]:
        """Those of `keys` that were closed before."""
        found: dict[TraceKey, ClosedTrace] = {}
        unknown: list[TraceKey] = []
        for key in keys:
            held = self._held.get(key)
            if self._deleted is not None and is_marked(self._deleted, *key):
                found[key] = ClosedTrace(0, 0, [], [], DELETED, "", 0, 0)
                self.came_deleted.add(key)
            elif self._set_aside is not None and key[1] in self._set_aside:
                found[key] = ClosedTrace(0, 0, [], [], SET_ASIDE, "", 0, 0)
            elif held is not None:
                found[key] = held[1].unpacked()
            elif (closed_ns := self._expired.get(key)) is not None:
                found[key] = ClosedTrace(closed_ns, 0, [], [], None, "", 0, 0)
            elif key in self._asked:
                if (asked := self._asked.pop(key)) is not None:
                    found[key] = asked
            else:
                unknown.append(key)
        if unknown:
            found.update(self._lookup(unknown))
        return found
