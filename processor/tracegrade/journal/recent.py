"""The records that this process wrote last, for readers in it that are up to date.

Reading a record again would cost a copy and a checksum of its payload, while its bytes are still in memory.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from tracegrade.journal.record import Record


class RecentRecords:
    """The newest durable records of one journal, up to `max_bytes` of payload.

    The journal's writer adds, before it answers an append; any thread reads.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._end: int | None = None
        self._records: OrderedDict[int, Record] = OrderedDict()  # by position
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after records were added, in the writer's thread; it must neither wait nor raise."""
        self._listeners.append(listener)

    def add(self, records: Iterable[Record]) -> None:
        """`records`, the next ones of the journal, are durable now."""
        with self._lock:
            for record in records:
                self._records[record.position] = record
                self._bytes += len(record.payload)
                self._end = record.end
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._records.popitem(last=False)[1].payload)
        for listener in self._listeners:
            listener()

    def forget(self) -> None:
        """Remove all records: the journal has other ones at their positions now."""
        with self._lock:
            self._records.clear()
            self._bytes = 0

    def after(self, position: int) -> list[Record] | None:
        """The records from `position` on, empty when there are none yet; None when only the journal can tell."""
        found = []
        with self._lock:
            while (record := self._records.get(position)) is not None:
                found.append(record)
                position = record.end
            return found if position == self._end else None
