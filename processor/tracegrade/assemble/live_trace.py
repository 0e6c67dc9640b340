"""One trace that is still open: its spans and log records as objects, packed when they are many and no more come."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tracegrade.assemble.completion import Deadlines
from tracegrade.assemble.content import digest, is_preferred, is_same_otherwise_kept, log_record_digest
from tracegrade.codec.kept_spans import decode_spans, encode_spans
from tracegrade.codec.raw_spans import plain
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Span


class _Packed(NamedTuple):
    """Spans and log records as bytes, and how many they are."""

    contents: int
    blob: bytes


@dataclass(slots=True)
class LiveTrace:
    """The spans and log records of one trace so far, and the facts that decide when it closes.

    Packed spans and log records are held as bytes; their keys stay, with None as value.
    """

    first_ns: int  # when it was opened or reopened: max_age counts from here
    last_ns: int
    first_position: int  # the first record that must be read again after a restart
    last_position: int
    rule_set: str
    deadlines: Deadlines
    origin: tuple[int, int] = (0, 0)  # receive time and position of its very first record
    spans: dict[bytes, Span | None] = field(default_factory=dict)
    replaced: set[bytes] = field(default_factory=set)
    missing_parents: set[bytes] = field(default_factory=set)
    log_records: dict[bytes, LogRecord | None] = field(default_factory=dict)  # by digest
    packed: tuple[_Packed, ...] = ()  # each holds fewer than the one before it
    local_roots: int = 0
    byte_count: int = 0
    unjudged: int = 0  # distinct contents of spans that came after it was last judged
    unjudged_log_records: list[bytes] = field(default_factory=list)
    judged_revision: int | None = None
    cut_by: str | None = None
    ended: bool = False
    kept_otherwise: bool = False  # its first spans were decoded with another attribute filter than its next
    overrides: int = 0  # those that apply to it, decided by its spans
    queued_due_ns: int = 0  # due time of its earliest entry in the queue
    counted: int = 0  # its part of `LiveTraces.unpacked`

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
        span_id = span.span_id
        if span_id not in self.spans:
            self.spans[span_id] = span
            self.missing_parents.discard(span_id)
            self._count(span)
            self.unjudged += 1
            return True
        if self.is_known(span):
            return False
        self._settle_conflict(span, self._unpacked_span(span_id))
        return True

    def add_all(self, spans: list[Span]) -> list[Span]:
        """Take in `spans`; those of them whose content was not known already."""
        if not self.spans:
            # Nearly every trace begins with a group of spans that all differ: together, they cost half.
            by_id: dict[bytes, Span | None] = {span.span_id: span for span in spans}
            if len(by_id) == len(spans):
                self.spans = by_id
                self.unjudged += len(spans)
                self._count_anew()
                return spans
        return [span for span in spans if self.add(span)]

    def add_log_record(self, record: LogRecord) -> None:
        """Take in one log record, if it is not known already."""
        key = log_record_digest(record)
        if key not in self.log_records:
            self.log_records[key] = record
            self.unjudged_log_records.append(key)

    def is_known_log_record(self, record: LogRecord) -> bool:
        """Whether this same log record was seen before."""
        return log_record_digest(record) in self.log_records

    def is_known(self, span: Span) -> bool:
        """Whether this same content was seen before."""
        if span.span_id not in self.spans:
            return False
        held = self._unpacked_span(span.span_id)
        if span == held or (self.kept_otherwise and is_same_otherwise_kept(plain(span), plain(held))):
            return True
        return bool(self.replaced) and digest(span) in self.replaced

    def _settle_conflict(self, span: Span, held: Span) -> None:
        self.unjudged += 1
        if not is_preferred(span, held):
            self.replaced.add(digest(span))
            return
        self.replaced.add(digest(held))
        self.spans[span.span_id] = span
        if span.parent_span_id != held.parent_span_id or span.flags != held.flags:
            self._count_anew()

    def _count(self, span: Span) -> None:
        if span.is_local_root:
            self.local_roots += 1
        elif span.parent_span_id not in self.spans:
            self.missing_parents.add(span.parent_span_id)

    def _count_anew(self) -> None:
        children = [span for span in self.all_spans() if not span.is_local_root]
        self.local_roots = len(self.spans) - len(children)
        self.missing_parents = {span.parent_span_id for span in children}.difference(self.spans)

    def _unpacked_span(self, span_id: bytes) -> Span:
        held = self.spans[span_id]
        if held is None:
            self.unpack()
            held = self.spans[span_id]
            assert held is not None  # None stands for a packed span, until it is unpacked
        return held

    @property
    def unpacked(self) -> int:
        """The number of spans and log records that are not packed."""
        held = len(self.spans) + len(self.log_records)
        return held - sum(packed.contents for packed in self.packed) if self.packed else held

    def pack(self) -> None:
        """Hold as bytes everything that is not packed yet.

        Later contents make a piece of their own, which is joined with the piece before it once it is as large. So each
        span is packed once for each doubling of the trace, and there are never many pieces.
        """
        while self.packed and self.packed[-1].contents <= self.unpacked:
            self._unpack_last()
        spans = [span for span in self.spans.values() if span is not None]
        log_records = [record for record in self.log_records.values() if record is not None]
        piece = _Packed(len(spans) + len(log_records), encode_spans(spans, [], log_records))
        if piece.contents:
            self.packed = (*self.packed, piece)
            self.spans = dict.fromkeys(self.spans)
            self.log_records = dict.fromkeys(self.log_records)

    def unpack(self) -> None:
        """Hold everything as objects again."""
        while self.packed:
            self._unpack_last()

    def _unpack_last(self) -> None:
        *rest, last = self.packed
        kept = decode_spans(last.blob, as_they_came=True)
        for span in kept.spans:
            self.spans[span.span_id] = span
        for record in kept.log_records:
            self.log_records[log_record_digest(record)] = record
        self.packed = tuple(rest)

    def all_spans(self) -> list[Span]:
        """All of them, unpacked; in no order."""
        self.unpack()
        return [span for span in self.spans.values() if span is not None]

    def all_log_records(self) -> dict[bytes, LogRecord]:
        """All of them, unpacked, by digest."""
        self.unpack()
        return {key: record for key, record in self.log_records.items() if record is not None}
