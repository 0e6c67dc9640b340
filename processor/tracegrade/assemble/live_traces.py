"""Live traces: puts spans and log records together into traces, and closes them when their time has come.

Time is an argument: live and in replay it is the receive time of the journal's records.

A worked example, with ``settle`` 2 s, ``idle_timeout`` 60 s and ``reopen_for`` 600 s; the root is span 1, the parent of
span 2::

    0.0 s   span 2 comes    the trace is live; its parent is missing: due when it was idle, at 60.0
    1.0 s   span 1 comes    the local root is here and no parent is missing: due when it has settled, at 3.0
    2.5 s   span 2 again    known, so a duplicate; but the trace is not quiet: due at 4.5
    4.5 s   nothing         closed as ``settled``, with 2 spans, in revision 2
    9.0 s   span 3 comes    found among the closed traces: live again with all 3 spans, due at 11.0
    11.0 s  nothing         closed again, in revision 3, which supersedes revision 2
    700 s   span 4 comes    later than ``reopen_for`` after that: counted ``too_late``, and opens no trace of its own

The queue holds each live trace once, under a time at which it may be due. At that time, the due time is computed again.
If it is later now, the entry is put back; so a span that only delays the due time needs no new entry.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from heapq import heappop, heappush, nsmallest
from typing import TypeVar

from tracegrade.assemble.closed_traces import DELETED, SET_ASIDE, ClosedTrace, ClosedTraces
from tracegrade.assemble.completion import Bounds, Overrides
from tracegrade.assemble.content import in_order_written, log_record_digest
from tracegrade.assemble.dispositions import DROPPED, TOO_LATE, Dispositions
from tracegrade.assemble.live_trace import LiveTrace
from tracegrade.codec.raw_spans import RawSpan
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span
from tracegrade.model.trace import CloseReason, Trace, TraceKey

Content = TypeVar("Content", Span, LogRecord)


class LiveTraces:
    """All live traces of one judge, and the queue of their due times."""

    def __init__(self, bounds: Bounds, closed: ClosedTraces, rule_set: str, filter_hash: str = "") -> None:
        self.rule_set = rule_set  # hash of the rule set for traces that begin now
        self.filter_hash = filter_hash  # hash of the attribute filter of spans that come now
        self.span_dispositions: Dispositions = Counter()  # of spans, since the start
        self.open_spans = 0  # distinct contents not judged yet
        self.log_record_dispositions: Dispositions = Counter()
        self.open_log_records = 0
        self.unpacked = 0  # contents of live traces that are not packed
        self.about_to_close: Callable[[bytes], object] = _ignored  # called with the id of each trace that is due
        self._bounds = bounds
        self._overrides = Overrides(bounds)
        self._deadlines = self._overrides.deadlines(0)
        self._closed = closed
        self._live: dict[TraceKey, LiveTrace] = {}
        self._queue: list[tuple[int, TraceKey]] = []
        self._ready: list[Trace] = []  # cut by a bound, and given with the next that are due
        self._ready_from: int | None = None  # the first position that these need
        self._clock_ns = 0
        self._max_bytes = bounds.max_mib_per_trace * 1024 * 1024

    def use(self, rule_set: str, filter_hash: str) -> None:
        """Mark traces that begin from now on with the hash of another rule set; open traces keep theirs."""
        self.rule_set = rule_set
        if filter_hash != self.filter_hash:
            self.filter_hash = filter_hash
            for live in self._live.values():
                live.kept_otherwise = True

    def is_open(self, key: TraceKey) -> bool:
        """Whether this trace is live."""
        return key in self._live

    def __len__(self) -> int:
        return len(self._live)

    @property
    def _open_contents(self) -> int:
        return self.open_spans + self.open_log_records

    @property
    def oldest_position(self) -> int | None:
        """The first journal position that a trace still needs that is live, or cut and not given yet; None for none."""
        # Traces open in journal order, so the trace that opened first needs the first position.
        first = next((live.first_position for live in self._live.values()), None)
        known = [position for position in (first, self._ready_from) if position is not None]
        return min(known, default=None)

    def add(
        self, spans: list[Span], tenant: str, received_ns: int, position: int, end: int, byte_count: int = 0
    ) -> None:
        """Take in the spans of one journal record.

        Call `close_due(received_ns)` first: a trace due before this record came is closed before it.

        Args:
            spans: of the record, in any order, of any number of traces.
            tenant: the owner of the spans.
            received_ns: the record's receive time.
            position: the record's first byte in the journal, and `end` the byte after it.
            byte_count: the record's size, divided evenly among its spans.
        """
        self._add(
            spans,
            LiveTrace.is_known,
            self.span_dispositions,
            self._take,
            tenant,
            received_ns,
            position,
            end,
            byte_count,
        )

    def add_log_records(
        self, records: list[LogRecord], tenant: str, received_ns: int, position: int, end: int, byte_count: int = 0
    ) -> None:
        """Take in the log records of one journal record, as `add` does spans.

        A trace that has only log records waits for its first span for as long as a late span could reopen it.
        """
        self._add(
            records,
            LiveTrace.is_known_log_record,
            self.log_record_dispositions,
            self._take_log_records,
            tenant,
            received_ns,
            position,
            end,
            byte_count,
        )

    def _add(
        self,
        contents: list[Content],
        is_known: Callable[[LiveTrace, Content], bool],
        dispositions: Dispositions,
        take: Callable[[TraceKey, LiveTrace, list[Content]], None],
        tenant: str,
        received_ns: int,
        position: int,
        end: int,
        byte_count: int,
    ) -> None:
        self._clock_ns = max(self._clock_ns, received_ns)
        by_id: defaultdict[bytes, list[Content]] = defaultdict(list)
        for content in contents:
            by_id[content.trace_id].append(content)
        by_trace = {(tenant, trace_id): group for trace_id, group in by_id.items()}
        known = self._closed.find([key for key in by_trace if key not in self._live])
        share = byte_count // len(contents) if contents else 0
        for key, group in by_trace.items():
            live = self._live.get(key)
            if live is None:
                origin = (received_ns, position)
                live = LiveTrace(received_ns, received_ns, position, position, self.rule_set, self._deadlines, origin)
                closed = known.get(key)
                if closed is not None:
                    self._recall(live, closed)
                    group = self._admit_or_count_late(live, closed, group, is_known, dispositions)
                    if not group:
                        continue
                self._live[key] = live
            live.last_ns = received_ns
            live.last_position = end
            live.byte_count += share * len(group)
            take(key, live, group)
        self._close_over_bounds()
        if self.unpacked > self._bounds.max_unpacked_spans:
            self._pack_quiet_ones()

    def _recall(self, live: LiveTrace, closed: ClosedTrace) -> None:
        for span in closed.spans:
            live.add(span)
        live.log_records.update((log_record_digest(record), record) for record in closed.log_records)
        live.replaced.update(closed.replaced)
        live.unjudged = 0
        live.judged_revision = closed.revision
        live.rule_set = closed.rule_set
        live.kept_otherwise = closed.filter_hash != self.filter_hash
        live.origin = (closed.first_received_ns, closed.first_position)
        self._override(live, closed.spans)

    def _admit_or_count_late(
        self,
        live: LiveTrace,
        closed: ClosedTrace,
        group: list[Content],
        is_known: Callable[[LiveTrace, Content], bool],
        dispositions: Dispositions,
    ) -> list[Content]:
        """The contents of `group` for which a closed trace is reopened; all others are counted."""
        new = [content for content in group if not is_known(live, content)]
        if duplicates := len(group) - len(new):
            dispositions["duplicate", ""] += duplicates
        if new and closed.cut_by in ("span_cap", "byte_cap", DELETED, SET_ASIDE):
            dispositions[DROPPED, closed.cut_by] += len(new)
            return []
        if new and live.last_ns > closed.closed_ns + self._deadlines.reopen_ns:
            dispositions[TOO_LATE, ""] += len(new)
            return []
        return new

    def _take(self, key: TraceKey, live: LiveTrace, group: list[Span]) -> None:
        if not live.spans and live.log_records:  # it begins now
            live.first_ns, live.rule_set = live.last_ns, self.rule_set
        added = live.add_all(group)
        changed = self._override(live, added)
        if (end_attribute := live.deadlines.end_attribute) is not None:
            # The end attribute may have come before the span that says which attribute that is. A reopened trace had
            # its end before, and settles.
            asked = live.all_spans() if changed and live.judged_revision is None else added
            live.ended = live.ended or any(_has_ended(span, end_attribute) for span in asked)
        self.open_spans += len(added)
        if duplicates := len(group) - len(added):
            self.span_dispositions["duplicate", ""] += duplicates
        self._after_taking(key, live)

    def _take_log_records(self, key: TraceKey, live: LiveTrace, group: list[LogRecord]) -> None:
        before = len(live.unjudged_log_records)
        for record in group:
            live.add_log_record(record)
        fresh = len(live.unjudged_log_records) - before
        self.open_log_records += fresh
        if duplicates := len(group) - fresh:
            self.log_record_dispositions["duplicate", ""] += duplicates
        self._after_taking(key, live)

    def _after_taking(self, key: TraceKey, live: LiveTrace) -> None:
        if len(live.spans) + len(live.log_records) > self._bounds.max_spans_per_trace:
            self._cut(key, live, "span_cap")
        elif live.byte_count > self._max_bytes:
            self._cut(key, live, "byte_cap")
        else:
            self._queue_due(key, live)
            self._count_unpacked(live)

    def _count_unpacked(self, live: LiveTrace) -> None:
        unpacked = live.unpacked
        self.unpacked += unpacked - live.counted
        live.counted = unpacked

    def _pack_quiet_ones(self) -> None:
        """Pack the traces that were quiet for longest, until at most half of the allowed spans are unpacked."""
        # Many at a time, since finding them looks at every live trace.
        for live in sorted((live for live in self._live.values() if live.counted), key=lambda live: live.last_ns):
            if self.unpacked <= self._bounds.max_unpacked_spans // 2:
                return
            live.pack()
            self._count_unpacked(live)

    def _override(self, live: LiveTrace, spans: list[Span]) -> bool:
        """Note which overrides apply because of `spans`. Returns whether the deadlines changed."""
        if not self._overrides:
            return False
        applying = live.overrides | self._overrides.applying(spans)
        if applying == live.overrides:
            return False
        live.overrides = applying
        live.deadlines = self._overrides.deadlines(applying)
        return True

    def _queue_due(self, key: TraceKey, live: LiveTrace) -> None:
        # A later due time is noticed when the entry comes up; only an earlier one needs a new entry.
        due_ns = self._due_ns(live)
        if not live.queued_due_ns or due_ns < live.queued_due_ns:
            live.queued_due_ns = due_ns
            heappush(self._queue, (due_ns, key))

    def _due_ns(self, live: LiveTrace) -> int:
        if not live.spans:
            return live.last_ns + self._deadlines.idle_ns + self._deadlines.reopen_ns
        return live.deadlines.due_ns(
            live.first_ns, live.last_ns, structurally_complete=live.structurally_complete, ended=live.ended
        )

    def close_due(self, now_ns: int) -> Iterator[Trace]:
        """Close every live trace that is due.

        Args:
            now_ns: the time to judge by, ns since 1970 UTC; never earlier than the last call's.

        Returns:
            Closed traces in order of their due times, those cut by a bound first. Each is closed and unpacked when the
            iterator reaches it; take all before adding anything else.

        Raises:
            ValueError: `now_ns` went backwards.
        """
        if now_ns < self._clock_ns:
            raise ValueError(f"time went backwards: {now_ns} after {self._clock_ns}")
        self._clock_ns = now_ns
        return self._close_what_is_due(now_ns)

    def _close_what_is_due(self, now_ns: int) -> Iterator[Trace]:
        ready, self._ready, self._ready_from = self._ready, [], None
        yield from ready
        while self._queue and self._queue[0][0] <= now_ns:
            queued_ns, key = heappop(self._queue)
            live = self._live.get(key)
            if live is None or live.queued_due_ns != queued_ns:
                continue  # it was closed meanwhile, or has an earlier entry
            due_ns = self._due_ns(live)
            if due_ns > now_ns:
                live.queued_due_ns = due_ns
                heappush(self._queue, (due_ns, key))
                continue
            if not live.spans:
                self._give_up(key, live, "unjoined", "")
                continue
            reason = live.deadlines.reason(
                live.first_ns, live.last_ns, structurally_complete=live.structurally_complete, ended=live.ended
            )
            self.about_to_close(key[1])
            yield self._close(key, live, reason, due_ns)

    def close_all(self) -> Iterator[Trace]:
        """Close all live traces because the input ended: first those that are due, then the others by age."""
        yield from self.close_due(self._clock_ns)
        # By key, so that no closed trace, which is unpacked, is held until the last one is closed.
        for key in sorted(self._live, key=lambda key: (self._live[key].first_ns, key)):
            live = self._live[key]
            if live.spans:
                self.about_to_close(key[1])
                yield self._close(key, live, "end_of_input", self._clock_ns)
            else:
                self._give_up(key, live, "unjoined", "")
        self._queue.clear()

    def _cut(self, key: TraceKey, live: LiveTrace, bound: CloseReason) -> None:
        if not live.spans:
            self._give_up(key, live, DROPPED, bound)
            return
        live.cut_by = bound
        first = live.first_position
        self._ready_from = first if self._ready_from is None else min(self._ready_from, first)
        self._ready.append(self._close(key, live, bound, self._clock_ns))

    def _give_up(self, key: TraceKey, live: LiveTrace, disposition: str, reason: str) -> None:
        """Drop log records for which no span arrived."""
        self._let_go(key, live)
        self.log_record_dispositions[disposition, reason] += len(live.log_records)
        self.open_log_records -= len(live.log_records)

    def _let_go(self, key: TraceKey, live: LiveTrace) -> None:
        del self._live[key]
        self.unpacked -= live.counted

    def _close_over_bounds(self) -> None:
        bounds = self._bounds
        while len(self._live) > bounds.max_live_traces or self._open_contents > bounds.max_live_spans:
            # A hundredth at a time: finding the traces that were quiet for longest looks at every live trace.
            count = 1 + len(self._live) // 100
            for key in nsmallest(count, self._live, key=lambda key: (self._live[key].last_ns, key)):
                self._cut(key, self._live[key], "memory")

    def _close(self, key: TraceKey, live: LiveTrace, reason: CloseReason, closed_ns: int) -> Trace:
        self._let_go(key, live)
        tenant, trace_id = key
        log_records = live.all_log_records()
        missing = ["root"] if not live.local_roots else []
        missing += [f"parent:{parent.hex()}" for parent in sorted(live.missing_parents)]
        self.span_dispositions["judged", ""] += live.unjudged
        self.open_spans -= live.unjudged
        for unjudged in live.unjudged_log_records:
            disposition = "joined" if log_records[unjudged].span_id in live.spans else "unjoined"
            self.log_record_dispositions[disposition, ""] += 1
        self.open_log_records -= len(live.unjudged_log_records)
        return Trace(
            trace_id=trace_id,
            tenant=tenant,
            spans=live.all_spans(),
            close_reason=reason,
            missing=missing,
            revision=live.revision,
            first_received_ns=live.origin[0],
            last_received_ns=live.last_ns,
            first_position=live.origin[1],
            last_position=live.last_position,
            cut_by=live.cut_by,
            replaced=sorted(live.replaced),
            supersedes=live.judged_revision,
            rule_set=live.rule_set,
            filter_hash="" if live.kept_otherwise else self.filter_hash,
            closed_ns=closed_ns,
            log_records=in_order_written(log_records) if log_records else [],
        )


def _has_ended(span: Span, end_attribute: str) -> bool:
    if isinstance(span, RawSpan) and not span.may_hold(end_attribute):
        return False
    return span.attributes.get(end_attribute) is True


def _ignored(trace_id: bytes) -> None:
    """Does nothing."""
