"""Takes the content of journal records into live traces; every span and log record is accounted for (promise 5)."""

from collections import Counter
from collections.abc import Container, Iterable

from tracegrade.assemble.closed_traces import DELETED, SET_ASIDE
from tracegrade.assemble.decode import Decoder, DemandOf, UnreadLogs, items_by_share
from tracegrade.assemble.dispositions import DROPPED, Dispositions
from tracegrade.assemble.live_traces import Content, LiveTraces
from tracegrade.assemble.share import ALL, Share
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.journal.record import Record
from tracegrade.model.signal import Signal

OVER_SHARE = "over_share"
"""Why a span is dropped whose sender sent more than others while the judge was far behind."""


class RecordIntake:
    """Decodes records, and passes on spans and log records to be judged."""

    def __init__(
        self,
        live: LiveTraces,
        attribute_filter: AttributeFilter,
        ignored_scopes: Iterable[str],
        passed_over: Container[int],
        share: Share = ALL,
        demand_of: DemandOf | None = None,
    ) -> None:
        """Start with nothing read.

        Args:
            live: takes spans and log records.
            attribute_filter: chooses the attributes to keep.
            ignored_scopes: spans and log records of these scopes are dropped.
            passed_over: positions of records that are counted and not read.
            share: only what is of it is taken in and counted; what has no trace any more, since it was erased, is
                counted by one of all shares.
            demand_of: as of `Decoder.use`.
        """
        self.read_spans = 0  # of all records taken in so far, with any disposition
        self.read_log_records = 0
        self._live = live
        self._decoder = Decoder(attribute_filter, share, demand_of)
        self._ignored_scopes = frozenset(ignored_scopes)
        self._passed_over = passed_over
        self.left_unread: frozenset[int] = frozenset()
        """The positions of records of who sent more than its share while the judge was behind: they are not read."""
        self._share = share

    @property
    def span_dispositions(self) -> dict[tuple[str, str], int]:
        """(disposition, reason) -> spans since the start; with the open ones they sum to ``read_spans``."""
        return {**self._live.span_dispositions, ("own", ""): self._decoder.own_spans}

    @property
    def log_record_dispositions(self) -> dict[tuple[str, str], int]:
        """(disposition, reason) -> log records since the start; with the open ones they sum to ``read_log_records``."""
        return {**self._live.log_record_dispositions, ("own", ""): self._decoder.own_log_records}

    @property
    def unread_log_records(self) -> Counter[UnreadLogs]:
        """The log records since the start that look like tool calls and name no span: all are among the unwanted."""
        return self._decoder.unread_log_records

    def use(self, attribute_filter: AttributeFilter, demand_of: DemandOf | None = None) -> None:
        """Use another filter, and what is asked for, from now on."""
        self._decoder.use(attribute_filter, demand_of)

    def passes_over(self, record: Record) -> bool:
        """Whether `record` is not read; if so, it is counted."""
        if record.known_as in self._passed_over:
            self._drop(record, SET_ASIDE)
            return True
        if record.position in self.left_unread:
            self._drop(record, OVER_SHARE)
            return True
        return False

    def _drop(self, record: Record, reason: str) -> None:
        if record.signal == Signal.TRACES:
            items = self._own_items(record)
            self.read_spans += items
            self._live.span_dispositions[DROPPED, reason] += items
        elif record.signal == Signal.LOGS:
            items = self._own_items(record)
            self.read_log_records += items
            self._live.log_record_dispositions[DROPPED, reason] += items

    def _own_items(self, record: Record) -> int:
        """How many items of our share `record` has, by a look at nothing but ids."""
        if self._share.is_all:
            return record.items
        return items_by_share(record.signal, record.payload, record.items, self._share.of)[self._share.number]

    def take(self, record: Record) -> None:
        """Take in the content of `record`."""
        if record.signal == Signal.TRACES:
            self._take_spans(record)
        elif record.signal == Signal.LOGS:
            self._take_log_records(record)

    def _take_spans(self, record: Record) -> None:
        live, dispositions, decoder = self._live, self._live.span_dispositions, self._decoder
        own, others = decoder.own_spans, decoder.other_spans
        spans = decoder.spans(record.payload)
        others = decoder.other_spans - others
        present = len(spans) + decoder.own_spans - own
        self.read_spans += present
        erased = record.items - present - others
        if erased and self._share.has_the_rest:
            self.read_spans += erased
            dispositions[DROPPED, DELETED] += erased
        byte_count = len(record.payload)
        if others:
            byte_count = byte_count * len(spans) // (len(spans) + others)
        spans = self._unignored(spans, dispositions)
        live.add(spans, record.tenant, record.received_ns, record.position, record.end, byte_count)

    def _take_log_records(self, record: Record) -> None:
        live, dispositions, decoder = self._live, self._live.log_record_dispositions, self._decoder
        before = (decoder.own_log_records, decoder.other_log_records, decoder.unwanted_log_records)
        decoded = decoder.log_records(record.payload)
        own, others, unwanted = (
            now - then
            for now, then in zip(
                (decoder.own_log_records, decoder.other_log_records, decoder.unwanted_log_records), before, strict=True
            )
        )
        if self._share.has_the_rest:  # erased ones are counted as unwanted
            unwanted = record.items - len(decoded) - own - others
        self.read_log_records += len(decoded) + own + unwanted
        dispositions["unwanted", ""] += unwanted
        if decoded:
            kept = self._unignored(decoded, dispositions)
            byte_count = len(record.payload) * len(kept) // record.items
            live.add_log_records(kept, record.tenant, record.received_ns, record.position, record.end, byte_count)

    def _unignored(self, contents: list[Content], dispositions: Dispositions) -> list[Content]:
        if not self._ignored_scopes:
            return contents
        kept = [content for content in contents if content.scope not in self._ignored_scopes]
        dispositions[DROPPED, "ignored_scope"] += len(contents) - len(kept)
        return kept
