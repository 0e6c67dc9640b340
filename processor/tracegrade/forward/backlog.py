"""The number of requests that wait in the journal for an exporter.

They are counted by reading, so that ``accepted = sent + queued + failed + loop`` is a check and not a definition.
Usually records are counted when they are read for sending. Only while sending is behind, they are read once more, in
advance, to be counted; since they have just been written, this does not read from the disk.
"""

import sys
from collections import Counter
from collections.abc import Iterable

from tracegrade.journal.record import Encoding, Record, Signal
from tracegrade.otlp.client import ExporterSettings


def is_sent(record: Record, settings: ExporterSettings) -> bool:
    """Whether the exporter sends `record`: of its signals and tenants, and not sent before it was set aside."""
    return (
        settings.takes(record.signal) and settings.is_for(record.tenant) and record.encoding is not Encoding.READ_AGAIN
    )


class Backlog:
    """Counts, by signal, the records between the read cursor and ``counted_to`` that the exporter takes."""

    def __init__(self, settings: ExporterSettings, position: int) -> None:
        self.counted_to = position
        self._settings = settings
        self._waiting: Counter[Signal] = Counter()

    @property
    def requests(self) -> int:
        """The number of requests counted and not taken yet."""
        return self._waiting.total()

    def count(self, records: Iterable[Record], up_to: int = sys.maxsize) -> None:
        """Count the `records` (in journal order) that were not counted before and end at `up_to` or earlier."""
        for record in records:
            if self.counted_to < record.end <= up_to:
                self.counted_to = record.end
                if is_sent(record, self._settings):
                    self._waiting[record.signal] += 1

    def take(self, signal: Signal) -> None:
        """One counted record of `signal` leaves the backlog to be sent."""
        self._waiting[signal] -= 1

    def replace(self, left: "Backlog") -> dict[Signal, int]:
        """Retention deleted the oldest part and left `left`. Returns how many requests are gone, by signal."""
        gone = self._waiting - left._waiting
        self._waiting = left._waiting
        self.counted_to = max(self.counted_to, left.counted_to)
        return dict(gone)
