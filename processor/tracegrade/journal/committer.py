"""The journal's writing thread: it commits everything that waits together, and ends old segments.

A commit is: one write, one fdatasync, then the end and the clock are published, then the appends are answered.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain

from tracegrade.journal.append import Append, answer
from tracegrade.journal.clock import JournalClock
from tracegrade.journal.commit_queue import CommitQueue
from tracegrade.journal.errors import FolderGoneError, JournalRefused
from tracegrade.journal.journal_telemetry import JournalTelemetry
from tracegrade.journal.recent import RecentRecords
from tracegrade.journal.refusals import Refusals
from tracegrade.journal.settings import JournalSettings
from tracegrade.journal.writer import SegmentWriter

TICK_S = 0.05  # how often the published clock moves on without traffic
GAUGES_EVERY_NS = 1_000_000_000


class Committer:
    """One thread, from the start until `close`."""

    def __init__(
        self,
        settings: JournalSettings,
        writer: SegmentWriter,
        clock: JournalClock,
        refusals: Refusals,
        telemetry: JournalTelemetry,
        *,
        clocked: bool,
    ) -> None:
        """Publish the clock, and start.

        Args:
            settings: when segments end, and how often is synced.
            writer: used by this thread alone from now on.
            clock: stamps what is written.
            refusals: notes what the disk does not take.
            telemetry: counts commits and sizes.
            clocked: as of `LocalJournal.open`.
        """
        self.recent: RecentRecords | None = None  # the newest records, if a reader in this process uses them
        self._settings = settings
        self._writer = writer
        self._clock = clock
        self._queue = CommitQueue()
        self._refusals = refusals
        self.telemetry = telemetry
        self._clocked = clocked
        self._gauges_due_ns = 0
        self._sync_due_ns = 0
        writer.publish(clock.read())
        self._thread = threading.Thread(target=self._run, name=f"{telemetry.name}-writer", daemon=True)
        self._thread.start()

    def add(self, append: Append) -> None:
        """Queue `append`.

        Raises:
            JournalRefused: full, or closed.
        """
        self._queue.add(append, self._refusals.check_room)

    def close(self) -> None:
        """Commit everything that waits, publish for the last time, and end."""
        self._queue.close()
        self._thread.join()

    def end_segment(self) -> None:
        """End the segment being written, so that everything written so far is in segments that no longer change."""
        self._queue.call(self._end_segment)

    def check_in_place(self) -> None:
        """See `SegmentWriter`."""
        self._queue.call(self._writer.check_in_place)

    def publish_rewritten(self) -> None:
        """See `SegmentWriter`."""
        self._queue.call(lambda: self._writer.publish_rewritten(self._clock.read()))

    def _run(self) -> None:
        """The thread; even if a bug ends it, no caller waits for ever."""
        try:
            self._commit_until_closed()
        finally:
            self._queue.refuse_rest()

    def _commit_until_closed(self) -> None:
        while True:
            work = self._queue.take(TICK_S if self._clocked or self._writer.unsynced else GAUGES_EVERY_NS / 1e9)
            for call, future in work.calls:
                _settle_call(call, future)
            if work.appends:
                self.commit(work.appends)
            elif work.closing:
                self._writer.publish(self._clock.read())
                return
            else:
                self._tick()

    def commit(self, appends: list[Append]) -> None:
        """Commit them and answer; called by the thread, or by a benchmark while the thread sleeps."""
        for run in self._runs(appends):
            size = sum(append.size for append in run)
            error = self._write(run, size)
            self._queue.committed(size)
            answer(run, error)
        self._tick()

    def _runs(self, appends: list[Append]) -> Iterator[list[Append]]:
        """`appends` in runs, none of which crosses from one segment into the next."""
        run: list[Append] = []
        used = self._writer.segment_used
        for append in appends:
            if run and used + append.size > self._settings.segment_bytes:
                yield run
                run = []
                used = 0
            run.append(append)
            used += append.size
        yield run

    def _write(self, run: list[Append], size: int) -> Exception | None:
        """Make `run` durable and published; the error when the disk did not take it."""
        clock_ns = self._clock.read()
        try:
            buffers: list[bytes] = []
            position = self._writer.end
            for append in run:
                buffers += append.encode(position, clock_ns)
                position = append.end
            self._writer.append(buffers, size, clock_ns)
        except OSError as error:
            return self._refusals.refuse(error, size)
        except Exception as error:  # a bug: the thread must go on, and senders must get an answer
            return JournalRefused("journal_unavailable", f"the journal failed: {error!r}; the sender should retry")
        self.telemetry.add("commits")
        if self.recent is not None:
            self.recent.add(chain.from_iterable([append.records(clock_ns) for append in run]))
        return None

    def _tick(self) -> None:
        """Work that is done with and without traffic: clock, gauges, ending old segments, interval sync."""
        now_ns = self._clock.read()
        try:
            if self._writer.unsynced and now_ns >= self._sync_due_ns:
                self._sync_due_ns = now_ns + int(self._settings.sync_interval * 1e9)
                self._writer.sync()
            if now_ns >= self._gauges_due_ns:
                self._gauges_due_ns = now_ns + GAUGES_EVERY_NS
                self.telemetry.set("size", self._writer.used)
                self.telemetry.set("end", self._writer.end)
                self._writer.check_in_place()
                self._end_old_segment(now_ns)
                self._refusals.end_those_over(now_ns, self._queue.waiting_bytes)
        except FolderGoneError as error:
            self._refusals.folder_gone(error)
        except OSError as error:
            self._refusals.disk_failed(error)
        self._writer.publish(now_ns)

    def _end_segment(self) -> None:
        if self._writer.bases and self._writer.end > self._writer.bases[-1]:
            self._writer.begin_segment(self._writer.last_ns)

    def _end_old_segment(self, now_ns: int) -> None:
        """With little traffic, a segment ends after an eighth of ``max_age``, so that its records can be deleted.

        The time of its last record is noted, not that of its end: nobody may have been here for long in between.
        """
        used = self._writer.segment_used
        if used and now_ns - self._writer.begun_ns[self._writer.bases[-1]] > int(self._settings.max_age * 1e9) // 8:
            self._writer.begin_segment(self._writer.last_ns)


def _settle_call(call: Callable[[], None], future: "Future[None]") -> None:
    try:
        call()
    except Exception as error:  # the writer's thread must go on; the waiting caller gets the error
        future.set_exception(error)
    else:
        future.set_result(None)
