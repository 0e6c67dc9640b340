"""Spans and log records to traces. Time is an argument: live and in replay it is the journal records' own time."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush, nsmallest
from typing import TypeVar

from tracegrade.assemble.closed_traces import DELETED, ClosedTrace, ClosedTraces, TraceKey
from tracegrade.assemble.completion import Deadlines, Overrides
from tracegrade.assemble.content import (
    digest,
    in_order_written,
    is_preferred,
    is_same_otherwise_kept,
    log_record_digest,
)
from tracegrade.assemble.settings import TracesSettings
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span
from tracegrade.model.trace import Trace

Content = TypeVar("Content", Span, LogRecord)
Fates = Counter[tuple[str, str]]  # (fate, reason) -> how many of them


@dataclass(slots=True)
class LiveTrace:
    """The spans and log records of one trace so far, and what decides when it closes."""

    first_ns: int  # when it opened, or opened again: max_age counts from here
    last_ns: int
    first_position: int  # the first record that would have to be read again
    last_position: int
    rule_set: str
    deadlines: Deadlines
    origin: tuple[int, int] = (0, 0)  # receive time and position of its very first record
    spans: dict[bytes, Span] = field(default_factory=dict)
    replaced: set[bytes] = field(default_factory=set)
    missing_parents: set[bytes] = field(default_factory=set)
    log_records: dict[bytes, LogRecord] = field(default_factory=dict)  # by digest
    local_roots: int = 0
    byte_count: int = 0
    unjudged: int = 0  # distinct contents of spans that came since it was last judged
    unjudged_log_records: list[LogRecord] = field(default_factory=list)
    judged_revision: int | None = None
    cut_by: str | None = None
    ended: bool = False
    kept_otherwise: bool = False  # other attributes were kept of its first spans than are of its next
    overrides: int = 0  # those that apply to it, by what its spans say
    queued_due_ns: int = 0  # due time of its earliest entry in the queue

    @property
    def revision(self) -> int:
        """The number of distinct contents seen, replaced ones included."""
        return len(self.spans) + len(self.replaced) + len(self.log_records)

    @property
    def structurally_complete(self) -> bool:
        """A local root is here and no span's parent is missing."""
        return self.local_roots > 0 and not self.missing_parents

    def add(self, span: Span) -> bool:
        """Take in one span; False when its content is known already."""
        held = self.spans.get(span.span_id)
        if held is None:
            self.spans[span.span_id] = span
            self.missing_parents.discard(span.span_id)
            self._count(span, +1)
            self.unjudged += 1
            return True
        if self.is_known(span):
            return False
        return self._settle_conflict(span, held)

    def add_log_record(self, record: LogRecord) -> None:
        """Take in one log record, if it is not known already."""
        key = log_record_digest(record)
        if key not in self.log_records:
            self.log_records[key] = record
            self.unjudged_log_records.append(record)

    def is_known_log_record(self, record: LogRecord) -> bool:
        """Whether this very log record was seen before."""
        return log_record_digest(record) in self.log_records

    def is_known(self, span: Span) -> bool:
        """Whether this very content was seen before."""
        held = self.spans.get(span.span_id)
        if held is None:
            return False
        if span == held or (self.kept_otherwise and is_same_otherwise_kept(span, held)):
            return True
        return bool(self.replaced) and digest(span) in self.replaced

    def _settle_conflict(self, span: Span, held: Span) -> bool:
        self.unjudged += 1
        if not is_preferred(span, held):
            self.replaced.add(digest(span))
            return True
        self.replaced.add(digest(held))
        self.spans[span.span_id] = span
        if span.parent_span_id != held.parent_span_id or span.flags != held.flags:
            self._count_anew()
        return True

    def _count(self, span: Span, step: int) -> None:
        if span.is_local_root:
            self.local_roots += step
        elif span.parent_span_id not in self.spans:
            self.missing_parents.add(span.parent_span_id)

    def _count_anew(self) -> None:
        self.local_roots = 0
        self.missing_parents = set()
        for span in self.spans.values():
            self._count(span, +1)


class LiveTraces:
    """All live traces of one judge, and the queue of their due times."""

    def __init__(self, settings: TracesSettings, closed: ClosedTraces, rule_set: str, wanted: str = "") -> None:
        self.rule_set = rule_set  # hash of the rule set in force for traces that begin now
        self.wanted = wanted  # hash of what is kept of spans that come now
        self.fates: Fates = Counter()  # of spans, since the start
        self.open_spans = 0  # distinct contents not judged yet
        self.log_record_fates: Fates = Counter()
        self.open_log_records = 0
        self._settings = settings
        self._overrides = Overrides(settings)
        self._deadlines = self._overrides.deadlines(0)
        self._closed = closed
        self._live: dict[TraceKey, LiveTrace] = {}
        self._queue: list[tuple[int, TraceKey]] = []
        self._ready: list[Trace] = []
        self._clock_ns = 0
        self._max_bytes = settings.max_mib_per_trace * 1024 * 1024

    def use(self, rule_set: str, wanted: str) -> None:
        """Stamp traces that begin from now on with the hash of another rule set; open ones keep theirs."""
        self.rule_set = rule_set
        if wanted != self.wanted:
            self.wanted = wanted
            for live in self._live.values():
                live.kept_otherwise = True

    def __len__(self) -> int:
        return len(self._live)

    @property
    def _open_contents(self) -> int:
        return self.open_spans + self.open_log_records

    @property
    def oldest_position(self) -> int | None:
        """The first journal position that a live trace still needs, None when none is live."""
        # Traces open in the order of the journal, so the one that opened first needs the first position.
        return next((live.first_position for live in self._live.values()), None)

    def add(
        self, spans: list[Span], tenant: str, received_ns: int, position: int, end: int, byte_count: int = 0
    ) -> None:
        """Take in the spans of one journal record.

        Call `close_due(received_ns)` first: a trace due before this record came is closed before it.

        Args:
            spans: of the record, any order, any number of traces.
            tenant: whose they are.
            received_ns: the record's receive time.
            position: the record's first byte in the journal, and `end` the byte after it.
            byte_count: the record's size, shared out evenly over its spans.
        """
        self._add(spans, LiveTrace.is_known, self.fates, self._take, tenant, received_ns, position, end, byte_count)

    def add_log_records(
        self, records: list[LogRecord], tenant: str, received_ns: int, position: int, end: int, byte_count: int = 0
    ) -> None:
        """Take in the log records of one journal record, as `add` does spans.

        A trace of which only log records came waits for its first span as long as a late span could reopen it.
        """
        self._add(
            records,
            LiveTrace.is_known_log_record,
            self.log_record_fates,
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
        fates: Fates,
        take: Callable[[TraceKey, LiveTrace, list[Content]], None],
        tenant: str,
        received_ns: int,
        position: int,
        end: int,
        byte_count: int,
    ) -> None:
        self._clock_ns = max(self._clock_ns, received_ns)
        by_trace: dict[TraceKey, list[Content]] = {}
        for content in contents:
            by_trace.setdefault((tenant, content.trace_id), []).append(content)
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
                    group = self._still_welcome(live, closed, group, is_known, fates)
                    if not group:
                        continue
                self._live[key] = live
            live.last_ns = received_ns
            live.last_position = end
            live.byte_count += share * len(group)
            take(key, live, group)
        self._close_over_bounds()

    def _recall(self, live: LiveTrace, closed: ClosedTrace) -> None:
        for span in closed.spans:
            live.add(span)
        live.log_records = {log_record_digest(record): record for record in closed.log_records}
        live.replaced.update(closed.replaced)
        live.unjudged = 0
        live.judged_revision = closed.revision
        live.rule_set = closed.rule_set
        live.kept_otherwise = closed.wanted != self.wanted
        live.origin = (closed.first_received_ns, closed.first_position)
        self._override(live, closed.spans)

    def _still_welcome(
        self,
        live: LiveTrace,
        closed: ClosedTrace,
        group: list[Content],
        is_known: Callable[[LiveTrace, Content], bool],
        fates: Fates,
    ) -> list[Content]:
        """What of `group` a closed trace is opened again for; the rest is counted."""
        new = [content for content in group if not is_known(live, content)]
        if duplicates := len(group) - len(new):
            fates["duplicate", ""] += duplicates
        if new and closed.cut_by in ("span_cap", "byte_cap", DELETED):
            fates["dropped", closed.cut_by] += len(new)
            return []
        if new and live.last_ns > closed.closed_ns + self._deadlines.reopen_ns:
            fates["too_late", ""] += len(new)
            return []
        return new

    def _take(self, key: TraceKey, live: LiveTrace, group: list[Span]) -> None:
        if not live.spans and live.log_records:  # it begins now
            live.first_ns, live.rule_set = live.last_ns, self.rule_set
        added = [span for span in group if live.add(span)]
        changed = self._override(live, added)
        if (end_attribute := live.deadlines.end_attribute) is not None:
            # The end may have come before the span that says which attribute ends this trace; one that is open again
            # was ended before, and settles.
            asked = live.spans.values() if changed and live.judged_revision is None else added
            live.ended = live.ended or any(span.attributes.get(end_attribute) is True for span in asked)
        self.open_spans += len(added)
        if duplicates := len(group) - len(added):
            self.fates["duplicate", ""] += duplicates
        self._after_taking(key, live)

    def _take_log_records(self, key: TraceKey, live: LiveTrace, group: list[LogRecord]) -> None:
        before = len(live.unjudged_log_records)
        for record in group:
            live.add_log_record(record)
        fresh = len(live.unjudged_log_records) - before
        self.open_log_records += fresh
        if duplicates := len(group) - fresh:
            self.log_record_fates["duplicate", ""] += duplicates
        self._after_taking(key, live)

    def _after_taking(self, key: TraceKey, live: LiveTrace) -> None:
        if len(live.spans) + len(live.log_records) > self._settings.max_spans_per_trace:
            self._cut(key, live, "span_cap")
        elif live.byte_count > self._max_bytes:
            self._cut(key, live, "byte_cap")
        else:
            self._queue_due(key, live)

    def _override(self, live: LiveTrace, spans: list[Span]) -> bool:
        """Note which overrides `spans` make apply; whether the deadlines changed."""
        if not self._overrides:
            return False
        applying = live.overrides | self._overrides.applying(spans)
        if applying == live.overrides:
            return False
        live.overrides = applying
        live.deadlines = self._overrides.deadlines(applying)
        return True

    def _queue_due(self, key: TraceKey, live: LiveTrace) -> None:
        # A later due time is found out when the entry comes up; only an earlier one needs an entry of its own.
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

    def close_due(self, now_ns: int) -> list[Trace]:
        """Close every live trace whose time has come.

        Args:
            now_ns: the time to judge by, ns since 1970 UTC; never earlier than the last call's.

        Returns:
            Closed traces in order of their due times, those cut by a bound first; spans sorted by (start_ns, end_ns,
            span_id). Empty when nothing is due.

        Raises:
            ValueError: `now_ns` went backwards.
        """
        if now_ns < self._clock_ns:
            raise ValueError(f"time went backwards: {now_ns} after {self._clock_ns}")
        self._clock_ns = now_ns
        ready, self._ready = self._ready, []
        while self._queue and self._queue[0][0] <= now_ns:
            queued_ns, key = heappop(self._queue)
            live = self._live.get(key)
            if live is None or live.queued_due_ns != queued_ns:
                continue  # closed meanwhile, or an earlier entry stands for it
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
            ready.append(self._close(key, live, reason, due_ns))
        return ready

    def close_all(self) -> list[Trace]:
        """Close what is still live because the input ended: first what is due by now, then the rest by age."""
        ready = self.close_due(self._clock_ns)
        for key, live in sorted(self._live.items(), key=lambda item: (item[1].first_ns, item[0])):
            if live.spans:
                ready.append(self._close(key, live, "end_of_input", self._clock_ns))
            else:
                self._give_up(key, live, "unjoined", "")
        self._queue.clear()
        return ready

    def _cut(self, key: TraceKey, live: LiveTrace, bound: str) -> None:
        if not live.spans:
            self._give_up(key, live, "dropped", bound)
            return
        live.cut_by = bound
        self._ready.append(self._close(key, live, bound, self._clock_ns))

    def _give_up(self, key: TraceKey, live: LiveTrace, fate: str, reason: str) -> None:
        """Let go of log records for which no span came."""
        del self._live[key]
        self.log_record_fates[fate, reason] += len(live.log_records)
        self.open_log_records -= len(live.log_records)

    def _close_over_bounds(self) -> None:
        settings = self._settings
        while len(self._live) > settings.max_live_traces or self._open_contents > settings.max_live_spans:
            # A hundredth at a time: finding the longest quiet ones looks at every live trace.
            count = 1 + len(self._live) // 100
            for key in nsmallest(count, self._live, key=lambda key: (self._live[key].last_ns, key)):
                self._cut(key, self._live[key], "memory")

    def _close(self, key: TraceKey, live: LiveTrace, reason: str, closed_ns: int) -> Trace:
        del self._live[key]
        tenant, trace_id = key
        missing = ["root"] if not live.local_roots else []
        missing += [f"parent:{parent.hex()}" for parent in sorted(live.missing_parents)]
        self.fates["judged", ""] += live.unjudged
        self.open_spans -= live.unjudged
        for record in live.unjudged_log_records:
            self.log_record_fates["joined" if record.span_id in live.spans else "unjoined", ""] += 1
        self.open_log_records -= len(live.unjudged_log_records)
        return Trace(
            trace_id=trace_id,
            tenant=tenant,
            spans=sorted(live.spans.values(), key=_span_order),
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
            wanted="" if live.kept_otherwise else self.wanted,
            closed_ns=closed_ns,
            log_records=in_order_written(live.log_records) if live.log_records else [],
        )


def _span_order(span: Span) -> tuple[int, int, bytes]:
    return (span.start_ns, span.end_ns, span.span_id)
