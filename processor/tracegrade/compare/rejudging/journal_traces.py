"""Stored traces read again from the journal, where it still holds them: with attributes that the store did not keep.

The part of the journal that may hold them is read once, in its order. A trace is put together from its first record to
its last, as the judge did, and is taken only if it has as many distinct contents as when it was judged.

Memory: only the wanted traces are put together, and of those only the ones that have begun and not ended where reading
is; beyond ``max_unpacked_spans`` they are held as compressed bytes. Spans of other traces are not decoded.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path

from tracegrade.assemble.completion import Deadlines
from tracegrade.assemble.content import in_order_written
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.live_trace import LiveTrace
from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.codec.packed_trace import PackedTrace
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.deletion.request import Deletions
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.model.log_record import LogRecord
from tracegrade.model.signal import Signal
from tracegrade.model.span import Span
from tracegrade.model.tenant_mark import is_marked
from tracegrade.pipeline.data_folder import JOURNAL
from tracegrade.pipeline.set_aside import SetAside


class JournalTraces:
    """Reads traces of one data folder's journal again; a running ``serve`` is not disturbed."""

    def __init__(self, data_path: Path, settings: TracesSettings, attribute_filter: AttributeFilter) -> None:
        """Look at the journal.

        Args:
            data_path: the data folder.
            settings: of ``traces``.
            attribute_filter: chooses the attributes to keep.

        Raises:
            JournalNotFound: there is no journal.
        """
        self._reader = JournalReader(data_path / JOURNAL)
        self._deleted = Deletions(data_path).tombstones()
        self._passed_over = SetAside(data_path).load().positions
        self._filter_hash = attribute_filter.hash
        self._decoder = Decoder(attribute_filter)
        self._ignored_scopes = frozenset(settings.ignore_scopes)
        self._deadlines = Deadlines.of(settings)
        self._max_unpacked = settings.max_unpacked_spans

    def close(self) -> None:
        """Close the journal's files."""
        self._reader.close()

    def bytes_of(self, wanted: Sequence[PackedTrace]) -> int:
        """How many bytes `read` goes through."""
        begin, end = self._bounds(wanted)
        return end - begin

    def read(self, wanted: Sequence[PackedTrace], advance: Callable[[int], None]) -> Iterator[PackedTrace]:
        """Those of `wanted` that the journal still holds as they were judged, in the order in which they ended.

        `advance` is called with the numbers of bytes that were read, or passed.
        """
        position, end = self._bounds(wanted)
        open_ = _Open(sorted(wanted, key=lambda item: item.trace.first_position), self._deadlines)
        while position < end:
            begun = position
            position = max(position, min(open_.needs_from(position), end))
            if position < end:
                try:
                    records = self._reader.read(position)
                except SegmentDeleted as deleted:  # by retention, meanwhile
                    records, position = [], max(deleted.first, position + 1)
                else:
                    position = records[-1].end if records else end
                for record in records:
                    self._take(record, open_)
                    yield from self._ended(open_, record.end)
            advance(min(position, end) - begun)

    def _bounds(self, wanted: Sequence[PackedTrace]) -> tuple[int, int]:
        first, last = self._reader.first(), self._reader.durable().end
        begin = min((item.trace.first_position for item in wanted), default=last)
        end = max((item.trace.last_position for item in wanted), default=first)
        return max(first, begin), max(first, begin, min(last, end))

    def _take(self, record: Record, open_: "_Open") -> None:
        open_.begin_at(record.position)
        if not open_.by_id or record.position in self._passed_over:
            return
        if record.signal == Signal.TRACES:
            for span in self._decoder.spans(record.payload, open_.by_id):
                if span.scope not in self._ignored_scopes:
                    open_.add(span, record.tenant)
        elif record.signal == Signal.LOGS:
            for found in self._decoder.log_records(record.payload):
                if found.scope not in self._ignored_scopes:
                    open_.add_log_record(found, record.tenant)
        if open_.unpacked > self._max_unpacked:
            open_.pack()

    def _ended(self, open_: "_Open", position: int) -> Iterator[PackedTrace]:
        for item, live in open_.ended_by(position):
            head = item.trace
            is_deleted = is_marked(self._deleted, head.tenant, head.trace_id)
            if live.revision == head.revision and live.spans and not is_deleted:
                spans = live.all_spans()
                log_records = in_order_written(live.all_log_records())
                packed = encode_spans(spans, sorted(live.replaced), log_records, self._filter_hash)
                yield PackedTrace(item.number, item.trace, packed, len(spans))


class _Open:
    """The wanted traces that have begun and not ended where the journal is read."""

    def __init__(self, in_order: Sequence[PackedTrace], deadlines: Deadlines) -> None:
        """`in_order` of their first positions."""
        self.by_id: dict[bytes, dict[str, LiveTrace]] = {}  # by trace id, then tenant
        self.unpacked = 0  # how many contents were taken in since all was packed, at most
        self._in_order = in_order
        self._begun = 0
        self._deadlines = deadlines
        self._ends: list[tuple[int, int]] = []  # last position, place in order

    def needs_from(self, position: int) -> int:
        """The first position from `position` on that a wanted trace needs; far away when none does."""
        if self._ends:
            return position
        return self._in_order[self._begun].trace.first_position if self._begun < len(self._in_order) else 2**63

    def begin_at(self, position: int) -> None:
        """Begin the traces that have their first record at `position`; of those before it, a part is gone."""
        while self._begun < len(self._in_order):
            item = self._in_order[self._begun]
            trace = item.trace
            if trace.first_position > position:
                return
            if trace.first_position == position:
                live = LiveTrace(0, 0, position, item.trace.last_position, "", self._deadlines)
                self.by_id.setdefault(trace.trace_id, {})[trace.tenant] = live
                heappush(self._ends, (item.trace.last_position, self._begun))
            self._begun += 1

    def add(self, span: Span, tenant: str) -> None:
        """Take in a span, if its trace is wanted here."""
        if (live := self.by_id.get(span.trace_id, {}).get(tenant)) is not None:
            self.unpacked += live.add(span)

    def add_log_record(self, record: LogRecord, tenant: str) -> None:
        """Take in a log record, if its trace is wanted here."""
        if (live := self.by_id.get(record.trace_id, {}).get(tenant)) is not None:
            live.add_log_record(record)
            self.unpacked += 1

    def pack(self) -> None:
        """Hold everything as bytes."""
        for of_id in self.by_id.values():
            for live in of_id.values():
                live.pack()
        self.unpacked = 0

    def ended_by(self, position: int) -> Iterator[tuple[PackedTrace, LiveTrace]]:
        """The traces whose last record ended by `position`; they are let go."""
        while self._ends and self._ends[0][0] <= position:
            item = self._in_order[heappop(self._ends)[1]]
            of_id = self.by_id[item.trace.trace_id]
            yield item, of_id.pop(item.trace.tenant)
            if not of_id:
                del self.by_id[item.trace.trace_id]
