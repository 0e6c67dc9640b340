"""Counts accepted spans and log records that the judge has not read yet: exact at any position and after restarts."""

import logging
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from tracegrade.assemble.decode import items_by_share
from tracegrade.journal.errors import SegmentDeleted
from tracegrade.journal.local import LocalJournal
from tracegrade.journal.reader import JournalReader
from tracegrade.journal.record import Entry, Record
from tracegrade.model.signal import Signal

logger = logging.getLogger(__name__)

_JUDGED = (Signal.TRACES, Signal.LOGS)
_SOON_COUNTED_BYTES = 16 * 1024 * 1024
_BEHIND_BYTES = 16 * 1024 * 1024
_BEHIND_LOOKS = 10


class Items(NamedTuple):
    """The number of items of each judged signal."""

    spans: int = 0
    log_records: int = 0

    def plus(self, other: "Items") -> "Items":
        """The sums."""
        return Items(self.spans + other.spans, self.log_records + other.log_records)

    def minus(self, other: "Items") -> "Items":
        """The differences; 0 instead of a negative number."""
        return Items(max(0, self.spans - other.spans), max(0, self.log_records - other.log_records))


class UnreadItems:
    """Wraps the journal's writer: notes after each accepted record how many items there are so far.

    `count` counts the records found at the start that the judge has not read. It takes a second for a million requests;
    senders are answered meanwhile, and only positions before the start have no count yet.
    """

    def __init__(self, journal: LocalJournal, folder: Path, judged_to: int, of: int = 1) -> None:
        """Prepare to count from `judged_to`, the judge's position, or from the first record still there.

        Where traces are shared `of` judges, the items of each share are counted: for that, requests are parsed.
        """
        self._journal = journal
        self._folder = folder
        self._of = of
        self._lock = threading.Lock()
        self._halted = False
        self._logged_s = 0.0
        reader = JournalReader(folder)
        # Retention may have deleted records that the judge had not read.
        self._begin = max(judged_to, reader.first())
        self._start = reader.durable().end
        reader.close()
        self._since = [_Sums(self._start) for _ in range(of)]
        self._before: list[_Sums] | None = None
        if self._start - self._begin <= _SOON_COUNTED_BYTES:
            self.count()

    @property
    def is_counted(self) -> bool:
        """Whether all positions have a count."""
        return self._before is not None

    def count(self) -> None:
        """Count the records found at the start, if not done yet; from any thread. Raises OSError if it cannot."""
        if self._before is not None:
            return
        sums = [_Sums(self._begin) for _ in range(self._of)]
        reader = JournalReader(self._folder)
        try:
            for end, signal, items in self._found_at_start(reader):
                for share, count in enumerate(items):
                    sums[share].note(end, signal, count)
                if self._halted:
                    return
        finally:
            reader.close()
        self._before = sums

    def _found_at_start(self, reader: JournalReader) -> Iterator[tuple[int, Signal, Sequence[int]]]:
        """End, signal and items by share of each record found at the start."""
        if self._of == 1:
            for end, signal, count in reader.counts(self._begin, self._start):
                yield end, signal, (count,)
            return
        position = self._begin
        while position < self._start:
            try:
                records = reader.read(position)
            except SegmentDeleted as error:
                position = error.first
                continue
            if not records:
                return
            for record in records:
                if record.end <= self._start:
                    yield record.end, record.signal, self._by_share(record)
            position = records[-1].end

    def _by_share(self, entry: Entry | Record) -> Sequence[int]:
        if self._of == 1 or entry.signal not in _JUDGED:
            return (entry.items,) * self._of
        return items_by_share(entry.signal, entry.payload, entry.items, self._of)

    def log_progress(self, position: int) -> None:
        """Log how much found at the start judges at `position` must still read; later, that it is done."""
        if position < self._start and not self._logged_s:
            self._logged_s = time.monotonic()
            size_mib = (self._start - position) / 1024**2
            waiting = Items()
            for share in range(self._of):
                waiting = waiting.plus(self.between(position, self._start, share) or Items())
            logger.info("%.0f MiB of the journal wait to be judged: %d spans and %d log records", size_mib, *waiting)
        elif position >= self._start and self._logged_s:
            logger.info("the journal found at the start is judged, after %.0f s", time.monotonic() - self._logged_s)
            self._logged_s = 0.0

    def halt(self) -> None:
        """Let `count` end early, as it is no longer needed."""
        self._halted = True

    def append(self, entry: Entry) -> "Future[int]":
        """As the journal's; the record is noted before the sender is answered."""
        if entry.signal not in _JUDGED:
            return self._journal.append(entry)
        by_share = self._by_share(entry)
        # Two, as a future wakes those that wait for it before it calls its callbacks.
        durable: Future[int] = Future()
        noted: Future[int] = Future()
        durable.add_done_callback(lambda done: self._note_appended(done, noted, entry.signal, by_share))
        self._journal.append(entry, durable)
        return noted

    def behind(self, position: int, deleted_to: int, committed: int, share: int = 0) -> Items | None:
        """The items of a share in records after `position` and `deleted_to`; forgets what is before `committed` too.

        A judge begins at `committed`, which may be after the `position` in its last snapshot, which is asked for until
        the next one. None while not counted.
        """
        known_from = min(position, committed)
        with self._lock:
            found = self._after(max(position, deleted_to), share)
            self._since[share].forget(known_from)
            if self._before is not None:
                self._before[share].forget(known_from)
            return found

    def between(self, begin: int, end: int, share: int = 0) -> Items | None:
        """The items of a share in records that end after `begin` and not after `end`; None while not counted."""
        with self._lock:
            after_begin, after_end = self._after(begin, share), self._after(end, share)
            return None if after_begin is None or after_end is None else after_begin.minus(after_end)

    def _after(self, position: int, share: int) -> Items | None:
        if position >= self._start:
            return self._since[share].after(position)
        return (
            None
            if self._before is None
            else self._before[share].after(position).plus(self._since[share].after(position))
        )

    def _note_appended(
        self, durable: "Future[int]", noted: "Future[int]", signal: Signal, by_share: Sequence[int]
    ) -> None:
        if (error := durable.exception()) is not None:
            noted.set_exception(error)
            return
        with self._lock:
            for share, count in enumerate(by_share):
                self._since[share].note(durable.result(), signal, count)
        noted.set_result(durable.result())


class SkippedItems:
    """Items that retention deleted before the judge read them, each counted once.

    The judge knows what it skipped: each of its snapshots says what that was up to the position in the same snapshot.
    It will also skip what is deleted after that position.
    """

    def __init__(self, unread: UnreadItems, share: int = 0) -> None:
        """Of the judge that has this share."""
        self._unread = unread
        self._share = share
        self._ranges: list[tuple[int, int]] = []  # counted ranges, in order, with gaps between them
        self._counted = Items()

    def note(self, snapshot: dict[str, Any] | None, read_to: int) -> None:
        """Count what a judge that has read up to `read_to` says it skipped."""
        for begin, end in (snapshot or {}).get("skipped", ()):
            if end <= read_to:
                self._count(begin, end)

    def dropped(self, read_to: int, deleted_to: int) -> Items:
        """All items that the judge skipped or will skip: retention has deleted everything before `deleted_to`."""
        ahead = self._unread.between(read_to, deleted_to, self._share) if deleted_to > read_to else None
        return self._counted.plus(ahead or Items())

    def _count(self, begin: int, end: int) -> None:
        position = begin
        for other_begin, other_end in [*self._ranges, (end, end)]:
            if position < min(other_begin, end):
                found = self._unread.between(position, min(other_begin, end), self._share)
                if found is None:
                    return  # records found at the start are still being counted: the next snapshot says the same again
                self._counted = self._counted.plus(found)
            position = max(position, other_end)
        self._ranges = _joined([*self._ranges, (begin, end)])


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


class JudgeBehind:
    """Whether the judge stays behind, or is so for a moment only; asked once a second."""

    def __init__(self) -> None:
        self.lost = False  # since the last question, something was deleted that the judge had not read
        self._looks = 0
        self._is_behind = False

    def condition(self, lag_bytes: int) -> str | None:
        """The text of the condition ``judge_behind`` at this lag; None while it does not hold."""
        self._looks = self._looks + 1 if lag_bytes > _BEHIND_BYTES else 0
        if self.lost or self._looks >= _BEHIND_LOOKS:
            self._is_behind = True
        elif lag_bytes < _BEHIND_BYTES // 2:
            self._is_behind = False
        lost, self.lost = self.lost, False
        if not self._is_behind:
            return None
        what = "; what it has not read is being deleted: journal.max_size_mib" if lost else ""
        return f"{lag_bytes / 1024**2:.0f} MiB of the journal wait to be judged{what}"


class _Sums:
    """Sums of items up to the end of each record; 24 bytes a record."""

    def __init__(self, begin: int) -> None:
        self._ends = array("Q", [begin])
        self._spans = array("Q", [0])
        self._log_records = array("Q", [0])

    def note(self, end: int, signal: Signal, items: int) -> None:
        if signal in _JUDGED:
            is_spans = signal == Signal.TRACES
            self._ends.append(end)
            self._spans.append(self._spans[-1] + (items if is_spans else 0))
            self._log_records.append(self._log_records[-1] + (0 if is_spans else items))

    def after(self, position: int) -> Items:
        """The items in records that end after `position`."""
        index = self._index(position)
        return Items(self._spans[-1] - self._spans[index], self._log_records[-1] - self._log_records[index])

    def forget(self, position: int) -> None:
        """Forget positions before `position`, which are no longer asked for."""
        index = self._index(position)
        for sums in (self._ends, self._spans, self._log_records):
            del sums[:index]

    def _index(self, position: int) -> int:
        return max(0, bisect_right(self._ends, position) - 1)
