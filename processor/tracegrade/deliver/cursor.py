"""One sink's way through a results journal: which results come next, and up to where the sink has taken them all."""

from collections.abc import Callable, Sequence

from tracegrade.codec.results import decode_result, is_erased
from tracegrade.deliver.recent import RecentResults
from tracegrade.journal.position import Position
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Record
from tracegrade.model.errors import TraceGradeError
from tracegrade.model.trace_result import TraceResult
from tracegrade.telemetry.metrics import Telemetry

MAX_BATCH_BYTES = 4 * 1024 * 1024


class ResultsCursor:
    """Reads results for one sink.

    ``position`` is up to where the sink has taken everything: the committed one, else that of the first record left.
    """

    def __init__(
        self,
        sink: str,
        reader: JournalReader,
        committed: Position,
        telemetry: Telemetry,
        recent: RecentResults,
        *,
        delivered: Callable[[int], None] = lambda position: None,
    ) -> None:
        """Begin at the committed position.

        Args:
            sink: its name, a metric label.
            reader: of the results journal.
            committed: the file with the sink's position.
            telemetry: counts records that cannot be read.
            recent: results that need not be read from disk.
            delivered: called with each position up to which the sink has taken everything.
        """
        self._sink = sink
        self._reader = reader
        self._committed = committed
        self._telemetry = telemetry
        self._recent = recent
        self._delivered = delivered
        loaded = committed.load()
        self.position = reader.first() if loaded is None else loaded
        recent.taken(sink, self.position)
        delivered(self.position)

    @property
    def end(self) -> int:
        """The end of everything that is durable now."""
        return self._reader.durable().end

    def after(self, position: int) -> tuple[Sequence[TraceResult], int]:
        """The results that follow `position`, and where they end: `position` itself when there are none yet.

        Raises:
            SegmentDeleted: retention deleted them.
        """
        return self._recent.after(position) or self._read_batch(position)

    def between(self, position: int, end: int) -> tuple[Sequence[TraceResult], int]:
        """As `after`, of records that end at `end` or before it; none where the next one ends later.

        Raises:
            SegmentDeleted: retention deleted them.
        """
        records = self._reader.read(position, MAX_BATCH_BYTES)
        within = [record for record in records if record.end <= end]
        return self._decoded(within), within[-1].end if within else end

    def begin_no_earlier(self, position: int) -> None:
        """Everything before `position` is known to be durable, whatever the committed position says."""
        self.position = max(self.position, position)

    def taken(self, position: int) -> None:
        """The sink holds everything up to `position`, though not durably: it is not read again in this process."""
        self._recent.taken(self._sink, position)

    def commit(self, position: int) -> None:
        """The sink has taken everything up to `position`: the next start begins there."""
        self.position = position
        self._committed.commit(position)
        self._recent.taken(self._sink, position)
        self._delivered(position)

    def _read_batch(self, position: int) -> tuple[Sequence[TraceResult], int]:
        records = self._reader.read(position, MAX_BATCH_BYTES)
        batch, end = self._decoded(records), records[-1].end if records else position
        self._recent.read(position, batch, end)
        return batch, end

    def _decoded(self, records: list[Record]) -> list[TraceResult]:
        batch = []
        for record in records:
            if is_erased(record.payload):
                continue
            try:
                batch.append(decode_result(record.payload))
            except TraceGradeError:
                self._telemetry.add("tracegrade.sink.dropped_records", sink=self._sink, reason="unreadable")
        return batch
