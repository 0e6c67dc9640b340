"""How many accepted spans the judge has not read yet: exact at any position, whoever restarts."""

import threading
from bisect import bisect_right
from concurrent.futures import Future

from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Entry
from tracegrade.model.signal import Signal


class UnreadSpans:
    """Wraps the journal's writer: notes behind each accepted record how many spans there are up to it."""

    def __init__(self, journal: LocalJournal, reader: JournalReader, judged_to: int) -> None:
        """Count what the judge, standing at `judged_to` or at the first record still there, finds at start."""
        self._journal = journal
        self._lock = threading.Lock()
        position = max(judged_to, reader.first())  # retention may have deleted what a judge left behind had not read
        self._ends = [position]
        self._counts = [0]  # spans between the first of `_ends` and the one of the same index
        end = reader.durable().end
        while position < end and (records := reader.read(position)):
            for record in records:
                if record.signal == Signal.TRACES:
                    self._note(record.end, record.items)
            position = records[-1].end

    def append(self, entry: Entry) -> "Future[int]":
        """As the journal's; the record is noted before the sender hears of it."""
        future = self._journal.append(entry)
        if entry.signal == Signal.TRACES:
            future.add_done_callback(lambda done: self._note_appended(done, entry.items))
        return future

    def behind(self, position: int, committed: int) -> int:
        """Spans in records that end after `position`; forgets what lies before `committed`, where a judge begins."""
        with self._lock:
            count = self._counts[-1] - self._counts[self._index(position)]
            index = self._index(committed)
            del self._ends[:index]
            del self._counts[:index]
            return count

    def between(self, begin: int, end: int) -> int:
        """Spans in records that end after `begin` and by `end`."""
        with self._lock:
            return max(0, self._counts[self._index(end)] - self._counts[self._index(begin)])

    def _index(self, position: int) -> int:
        return max(0, bisect_right(self._ends, position) - 1)

    def _note_appended(self, done: "Future[int]", items: int) -> None:
        if done.exception() is None:
            with self._lock:
                self._note(done.result(), items)

    def _note(self, end: int, items: int) -> None:
        self._ends.append(end)
        self._counts.append(self._counts[-1] + items)
