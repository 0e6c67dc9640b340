"""How many accepted spans and log records the judge has not read yet: exact at any position, whoever restarts."""

import threading
from bisect import bisect_right
from concurrent.futures import Future
from typing import NamedTuple

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Entry
from tracegrade.model.signal import Signal

_JUDGED = (Signal.TRACES, Signal.LOGS)


class Items(NamedTuple):
    """So many of each signal that is judged."""

    spans: int = 0
    log_records: int = 0

    def minus(self, other: "Items") -> "Items":
        """What `other` lacks of this; none below 0."""
        return Items(max(0, self.spans - other.spans), max(0, self.log_records - other.log_records))


class UnreadItems:
    """Wraps the journal's writer: notes behind each accepted record how many items there are up to it."""

    def __init__(self, journal: LocalJournal, reader: JournalReader, judged_to: int) -> None:
        """Count what the judge, standing at `judged_to` or at the first record still there, finds at start."""
        self._journal = journal
        self._lock = threading.Lock()
        position = max(judged_to, reader.first())  # retention may have deleted what a judge left behind had not read
        self._ends = [position]
        self._counts = [Items()]  # between the first of `_ends` and the one of the same index
        end = reader.durable().end
        while position < end and (records := reader.read(position)):
            for record in records:
                self._note(record.end, record.signal, record.items)
            position = records[-1].end

    def append(self, entry: Entry) -> "Future[int]":
        """As the journal's; the record is noted before the sender hears of it."""
        future = self._journal.append(entry)
        if entry.signal in _JUDGED:
            future.add_done_callback(lambda done: self._note_appended(done, entry))
        return future

    def behind(self, position: int, committed: int) -> Items:
        """What is in records that end after `position`; forgets what lies before `committed`, where a judge begins."""
        with self._lock:
            count = self._counts[-1].minus(self._counts[self._index(position)])
            index = self._index(committed)
            del self._ends[:index]
            del self._counts[:index]
            return count

    def between(self, begin: int, end: int) -> Items:
        """What is in records that end after `begin` and by `end`."""
        with self._lock:
            return self._counts[self._index(end)].minus(self._counts[self._index(begin)])

    def _index(self, position: int) -> int:
        return max(0, bisect_right(self._ends, position) - 1)

    def _note_appended(self, done: "Future[int]", entry: Entry) -> None:
        if done.exception() is None:
            with self._lock:
                self._note(done.result(), entry.signal, entry.items)

    def _note(self, end: int, signal: Signal, items: int) -> None:
        if signal in _JUDGED:
            spans, log_records = self._counts[-1]
            is_spans = signal == Signal.TRACES
            self._ends.append(end)
            self._counts.append(Items(spans + items, log_records) if is_spans else Items(spans, log_records + items))
