"""Takes the content of journal records into live traces; every span and log record is accounted for (promise 5)."""

from collections.abc import Container, Iterable

from tracegrade.assemble.closed_traces import DELETED, SET_ASIDE
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.live_traces import Content, Dispositions, LiveTraces
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.journal.record import Record
from tracegrade.model.signal import Signal


class RecordIntake:
    """Decodes records, and passes on spans and log records to be judged."""

    def __init__(
        self,
        live: LiveTraces,
        attribute_filter: AttributeFilter,
        ignored_scopes: Iterable[str],
        passed_over: Container[int],
    ) -> None:
        """Start with nothing read.

        Args:
            live: takes spans and log records.
            attribute_filter: chooses the attributes to keep.
            ignored_scopes: spans and log records of these scopes are dropped.
            passed_over: positions of records that are counted and not read.
        """
        self.read_spans = 0  # of all records taken in so far, with any disposition
        self.read_log_records = 0
        self._live = live
        self._decoder = Decoder(attribute_filter)
        self._ignored_scopes = frozenset(ignored_scopes)
        self._passed_over = passed_over

    @property
    def span_dispositions(self) -> dict[tuple[str, str], int]:
        """(disposition, reason) -> spans since the start; with the open ones they sum to ``read_spans``."""
        return {**self._live.span_dispositions, ("own", ""): self._decoder.own_spans}

    @property
    def log_record_dispositions(self) -> dict[tuple[str, str], int]:
        """(disposition, reason) -> log records since the start; with the open ones they sum to ``read_log_records``."""
        return {**self._live.log_record_dispositions, ("own", ""): self._decoder.own_log_records}

    def use(self, attribute_filter: AttributeFilter) -> None:
        """Use another filter from now on."""
        self._decoder.use(attribute_filter)

    def passes_over(self, record: Record) -> bool:
        """Whether `record` is not read; if so, it is counted."""
        if record.position not in self._passed_over:
            return False
        if record.signal == Signal.TRACES:
            self.read_spans += record.items
            self._live.span_dispositions["dropped", SET_ASIDE] += record.items
        elif record.signal == Signal.LOGS:
            self.read_log_records += record.items
            self._live.log_record_dispositions["dropped", SET_ASIDE] += record.items
        return True

    def take(self, record: Record) -> None:
        """Take in the content of `record`."""
        if record.signal == Signal.TRACES:
            self._take_spans(record)
        elif record.signal == Signal.LOGS:
            self._take_log_records(record)

    def _take_spans(self, record: Record) -> None:
        live, dispositions = self._live, self._live.span_dispositions
        self.read_spans += record.items
        own = self._decoder.own_spans
        spans = self._decoder.spans(record.payload)
        if erased := record.items - len(spans) - self._decoder.own_spans + own:
            dispositions["dropped", DELETED] += erased
        spans = self._unignored(spans, dispositions)
        live.add(spans, record.tenant, record.received_ns, record.position, record.end, len(record.payload))

    def _take_log_records(self, record: Record) -> None:
        live, dispositions = self._live, self._live.log_record_dispositions
        self.read_log_records += record.items
        own = self._decoder.own_log_records
        decoded = self._decoder.log_records(record.payload)
        own = self._decoder.own_log_records - own
        dispositions["unwanted", ""] += record.items - len(decoded) - own
        if decoded:
            kept = self._unignored(decoded, dispositions)
            byte_count = len(record.payload) * len(kept) // record.items
            live.add_log_records(kept, record.tenant, record.received_ns, record.position, record.end, byte_count)

    def _unignored(self, contents: list[Content], dispositions: Dispositions) -> list[Content]:
        if not self._ignored_scopes:
            return contents
        kept = [content for content in contents if content.scope not in self._ignored_scopes]
        dispositions["dropped", "ignored_scope"] += len(contents) - len(kept)
        return kept
